// SPDX-License-Identifier: Apache-2.0
// One HTML file out of the assets, plotly.js and the data.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace moesaic::cli::report {

/// A file of assets/, compiled in.
struct Asset {
  std::string_view name, text;
};
/// In the order in which scripts must run.
std::span<const Asset> assets();

/// plotly.min.js: `given` if not empty, else the one that is installed beside the command, else the
/// one that the build found. @throws Error{invalid_argument} naming --plotly, the places looked at
/// and how to get the file.
std::string read_plotly(const std::string& given);

/// The page. `json` may hold any text: nothing in it ends the script element that carries it.
std::string render_page(std::string_view title, std::string_view plotly, std::string_view json);

/// Writes all of `text` or nothing: beside the file first, then renamed over it; "-" is standard
/// output. @throws Error{invalid_argument} naming -o.
void write_page(const std::string& path, std::string_view text);

}  // namespace moesaic::cli::report
