# SPDX-License-Identifier: Apache-2.0
# The page of `moesaic report`: its assets become one C++ file, scripts in the order in which they run.
# plotly.js is embedded in every page, so the command must find it: beside itself where it is installed,
# else where it was found here. It comes with the PyPI package plotly, which scripts/setup.sh puts in .venv.

set(report_assets page.html style.css base.js arithmetic.js theme.js figure.js
  circumstances.js results.js routing.js routing_tables.js routing_figures.js explorer_draw.js explorer.js
  figure_sweep.js figure_histograms.js figure_skew.js figure_sustained.js figure_bench.js
  exchange.js figure_exchange.js figure_model.js main.js)
set(report_paths "")
foreach(name IN LISTS report_assets)
  list(APPEND report_paths ${CMAKE_CURRENT_SOURCE_DIR}/report/assets/${name})
endforeach()
string(REPLACE ";" "|" report_list "${report_paths}")
add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/report_assets.cpp
  COMMAND ${CMAKE_COMMAND} -DOUT=${CMAKE_CURRENT_BINARY_DIR}/report_assets.cpp "-DFILES=${report_list}"
    -P ${CMAKE_CURRENT_SOURCE_DIR}/report/embed.cmake
  DEPENDS ${report_paths} report/embed.cmake VERBATIM)
target_sources(moesaic_cli_core PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/report_assets.cpp)

# Looked for anew at every configure: .venv may come and go.
file(GLOB report_plotly ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/plotly/package_data)
unset(MOESAIC_PLOTLY_FOUND CACHE)
find_file(MOESAIC_PLOTLY_FOUND plotly.min.js PATHS ${report_plotly} NO_DEFAULT_PATH)
set(MOESAIC_PLOTLY "")
if(MOESAIC_PLOTLY_FOUND)
  set(MOESAIC_PLOTLY ${MOESAIC_PLOTLY_FOUND})
  install(FILES ${MOESAIC_PLOTLY} DESTINATION share/moesaic)
else()
  message(STATUS "moesaic: no plotly.min.js in .venv; moesaic report will ask for --plotly")
endif()
set_property(SOURCE report/page.cpp APPEND PROPERTY COMPILE_DEFINITIONS "MOESAIC_PLOTLY=\"${MOESAIC_PLOTLY}\"")
