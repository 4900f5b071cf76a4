// SPDX-License-Identifier: Apache-2.0
// Cases by process and by values of their factors.
#include "experiment/case_filter.hpp"

#include <algorithm>
#include <set>

#include "arguments.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

bool has(const FactorChoice& choice, const std::string& value) {
  return std::find(choice.values.begin(), choice.values.end(), value) != choice.values.end();
}

std::string words_of(const std::set<std::string>& words) {
  static constexpr std::size_t kMostWords = 20;
  std::vector<std::string> some(words.begin(), words.end());
  // Numbers by their size, not by their first digit.
  std::stable_sort(some.begin(), some.end(),
                   [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
  if (some.size() <= kMostWords) return join(some, ", ");
  some.resize(kMostWords);
  return join(some, ", ") + ", ...";
}

/// "trial=0,2 tokens=1", as it was given.
std::string words_of(const CaseFilter& filter) {
  std::vector<std::string> words;
  words.reserve(filter.only.size() + 1);
  for (const FactorChoice& choice : filter.only) {
    words.push_back(choice.factor + "=" + join(choice.values, ","));
  }
  if (filter.process >= 0) words.push_back("--process " + std::to_string(filter.process));
  return join(words, " ");
}

}  // namespace

FactorChoice parse_choice(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || equals + 1 == text.size()) {
    refuse("--only", "FACTOR=VALUE,... such as trial=0,2", text);
  }
  return {std::string(text.substr(0, equals)),
          parse_list<std::string>("--only", text.substr(equals + 1),
                                  [](std::string_view word) { return std::string(word); })};
}

bool CaseFilter::takes(const Case& one) const {
  if (process >= 0 && one.process != process) return false;
  return std::all_of(only.begin(), only.end(), [&](const FactorChoice& choice) {
    const std::string value = factor_text(one.factors, choice.factor);
    return value.empty() || has(choice, value);
  });
}

void CaseFilter::require_known(const Design& design) const {
  if (process >= design.processes) {
    refuse("--process", "0 to " + std::to_string(design.processes - 1), std::to_string(process));
  }
  for (const FactorChoice& choice : only) {
    std::set<std::string> factors, values;
    for (const Case& one : design.cases) {
      for (const Factor& factor : one.factors) factors.insert(factor.name);
      const std::string value = factor_text(one.factors, choice.factor);
      if (!value.empty()) values.insert(value);
    }
    if (values.empty()) {
      refuse("--only", "a factor of " + design.name + ": " + words_of(factors), choice.factor);
    }
    for (const std::string& value : choice.values) {
      if (!values.contains(value)) {
        refuse("--only", "values that " + choice.factor + " has: " + words_of(values), value);
      }
    }
  }
  if (std::none_of(design.cases.begin(), design.cases.end(),
                   [&](const Case& one) { return takes(one); })) {
    refuse("--only", "values that some case has together", words_of(*this));
  }
}

}  // namespace moesaic::cli::experiment
