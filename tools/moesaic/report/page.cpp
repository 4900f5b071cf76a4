// SPDX-License-Identifier: Apache-2.0
// One HTML file out of the assets, plotly.js and the data.
#include "report/page.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <vector>

#include "moesaic/error.hpp"
#include "text.hpp"

namespace moesaic::cli::report {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Where an installed command finds its data: PREFIX/share/moesaic beside PREFIX/bin.
fs::path installed_plotly() {
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  return self.parent_path().parent_path() / "share" / "moesaic" / "plotly.min.js";
}

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

/// "<" occurs only inside strings of JSON, where \u003c means the same and ends no element.
std::string escape_json(std::string_view json) {
  std::string result;
  result.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result;
}

/// In a string or regular expression of JavaScript "<\/script" means "</script", which would end
/// the element there.
std::string escape_script(std::string_view script) {
  static constexpr std::string_view kEnd = "</script";
  std::string result;
  result.reserve(script.size());
  for (std::size_t i = 0; i < script.size(); ++i) {
    result += script[i];
    const std::string_view here = script.substr(i, kEnd.size());
    const bool ends = std::equal(here.begin(), here.end(), kEnd.begin(), kEnd.end(),
                                 [](char a, char b) { return (a | 0x20) == (b | 0x20); });
    if (ends) result += '\\';
  }
  return result;
}

std::string_view asset(std::string_view name) {
  for (const Asset& one : assets()) {
    if (one.name == name) return one.text;
  }
  return {};
}

std::string scripts() {
  std::string text;
  for (const Asset& one : assets()) {
    if (one.name.ends_with(".js")) text += escape_script(one.text);
  }
  return text;
}

struct Piece {
  std::string_view mark;
  std::string text;
};

/// The template with every mark replaced once; what was put in is not looked at again.
std::string filled(std::string_view page, const std::vector<Piece>& pieces) {
  std::string result;
  for (const Piece& piece : pieces) {
    const std::size_t at = page.find(piece.mark);
    if (at == std::string_view::npos) continue;
    result += page.substr(0, at);
    result += piece.text;
    page.remove_prefix(at + piece.mark.size());
  }
  return result += page;
}

[[noreturn]] void refuse_output(const std::string& path, const std::error_code& error) {
  refuse("-o", "a file that can be written", path + " (" + error.message() + ")");
}

void write_file(std::FILE* file, const std::string& path, std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fflush(file) != 0) {
    refuse_output(path, std::error_code(errno, std::generic_category()));
  }
}

struct Close {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

}  // namespace

std::string read_plotly(const std::string& given) {
  std::vector<fs::path> places;
  if (given.empty()) {
    places = {installed_plotly(), MOESAIC_PLOTLY};
  } else {
    places = {given};
  }
  std::vector<std::string> tried;
  for (const fs::path& place : places) {
    std::error_code ignored;
    if (place.empty()) continue;
    tried.push_back(place.string());
    if (!fs::is_regular_file(place, ignored)) continue;
    std::string text = read_text(place);
    // What every build of plotly.js says in its first lines.
    if (text.substr(0, 400).find("plotly.js") != std::string::npos) return text;
    refuse("--plotly", "plotly.min.js, which begins with its name", place.string());
  }
  throw Error(ErrorCode::invalid_argument,
              "--plotly: expected plotly.min.js, got none at " + join(tried, ", ") +
                  "; it is in the PyPI package plotly: pip install plotly, then --plotly "
                  "SITE-PACKAGES/plotly/package_data/plotly.min.js, or scripts/setup.sh before "
                  "the build is configured");
}

std::string render_page(std::string_view title, std::string_view plotly, std::string_view json) {
  return filled(asset("page.html"), {{"{{title}}", escape_html(title)},
                                     {"{{style}}", std::string(asset("style.css"))},
                                     {"{{data}}", escape_json(json)},
                                     {"{{plotly}}", escape_script(plotly)},
                                     {"{{scripts}}", scripts()}});
}

void write_page(const std::string& path, std::string_view text) {
  if (path == "-") return write_file(stdout, path, text);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const bool replace = !fs::exists(status) || fs::is_regular_file(status);
  if (fs::is_directory(status)) refuse("-o", "a file", path + ", which is a folder");
  const std::string beside = replace ? path + ".part-" + std::to_string(getpid()) : path;
  {
    const std::unique_ptr<std::FILE, Close> file(std::fopen(beside.c_str(), "wb"));
    if (file == nullptr) refuse_output(path, std::error_code(errno, std::generic_category()));
    try {
      write_file(file.get(), path, text);
    } catch (...) {
      if (replace) fs::remove(beside, error);
      throw;
    }
  }
  if (!replace) return;
  fs::rename(beside, path, error);
  if (error) {
    const std::error_code reason = error;
    fs::remove(beside, error);
    refuse_output(path, reason);
  }
}

}  // namespace moesaic::cli::report
