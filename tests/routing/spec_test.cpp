// SPDX-License-Identifier: Apache-2.0
// The grammar of SPECs.
#include "routing_test_util.hpp"

namespace moesaic::routing::testing {
namespace {

std::string spec_refusal(const std::string& spec) {
  const std::string message = refusal_of([&] { (void)generate(spec, {100, 8, 0}); });
  EXPECT_TRUE(says(message, spec.substr(0, 24)));
  return message;
}

TEST(Spec, LooksLikeASpec) {
  for (const char* text :
       {"uniform", "zipf:1.2", "zipf", "one-hot", "counts:1,2", "counts:", "gauss:1", "Zipf:2"}) {
    EXPECT_TRUE(looks_like_spec(text)) << text;
  }
  for (const char* text :
       {"", "-", "a.json", "gauss", "dir/zipf:1", "a.b:1", ":1", "uniforms", "*:1"}) {
    EXPECT_FALSE(looks_like_spec(text)) << text;
  }
}

TEST(Spec, NamedAndPositionalParametersAgree) {
  const GenerateOptions options{1000, 16, 3};
  EXPECT_EQ(generate("zipf:1.2", options).counts, generate("zipf:s=1.2", options).counts);
  EXPECT_EQ(generate("dirichlet:0.3", options).counts,
            generate("dirichlet:alpha=0.3", options).counts);
  EXPECT_EQ(generate("hotspot:0.9,2", options).counts,
            generate("hotspot:count=2,share=0.9", options).counts);
  EXPECT_EQ(generate("hotspot:0.9,2", options).counts,
            generate("hotspot:0.9,count=2", options).counts);
  EXPECT_EQ(generate("hotspot:0.9", options).counts, generate("hotspot:0.9,1", options).counts);
}

TEST(Spec, UnknownNamesAndKeysAreNamed) {
  const std::string message = spec_refusal("gauss:1");
  EXPECT_TRUE(says(message, "'gauss' is not known"));
  EXPECT_TRUE(says(message, "uniform, zipf:S, dirichlet:ALPHA"));
  EXPECT_TRUE(says(spec_refusal("zipf:1.2,alph=2"), "no key 'alph'; its keys are s"));
  EXPECT_TRUE(says(spec_refusal("hotspot:0.5,counts=2"), "its keys are share, count"));
}

TEST(Spec, ParametersAreChecked) {
  for (const char* spec :
       {"zipf:nan", "zipf:inf", "zipf:-1", "zipf:1e9", "zipf:", "zipf:1.2x", "zipf: 1"}) {
    EXPECT_TRUE(says(spec_refusal(spec), "expected a number from 0 to 1000")) << spec;
  }
  for (const char* spec :
       {"dirichlet:0", "dirichlet:-1", "dirichlet:nan", "dirichlet:inf", "dirichlet:1e-9"}) {
    EXPECT_TRUE(says(spec_refusal(spec), "alpha is")) << spec;
  }
  for (const char* spec : {"hotspot:1.01", "hotspot:-0.1", "hotspot:nan"}) {
    EXPECT_TRUE(says(spec_refusal(spec), "expected a number from 0 to 1")) << spec;
  }
  for (const char* spec :
       {"hotspot:0.5,0", "hotspot:0.5,-1", "hotspot:0.5,1.5", "hotspot:0.5,count="}) {
    EXPECT_TRUE(says(spec_refusal(spec), "count is")) << spec;
  }
  EXPECT_TRUE(says(spec_refusal("hotspot:0.5,9"), "more than 8 experts"));
  EXPECT_TRUE(says(spec_refusal("zipf"), "needs s"));
  EXPECT_TRUE(says(spec_refusal("hotspot:count=2"), "needs share"));
  EXPECT_TRUE(says(spec_refusal("zipf:1,2"), "one parameter too many"));
  EXPECT_TRUE(says(spec_refusal("zipf:1,s=2"), "s twice"));
  EXPECT_TRUE(says(spec_refusal("hotspot:count=2,0.5"), "without a name"));
  EXPECT_TRUE(says(spec_refusal("uniform:3"), "takes no parameter"));
  EXPECT_TRUE(says(spec_refusal("one-hot:"), "takes no parameter"));
  EXPECT_TRUE(says(spec_refusal("zipf:1,"), "comma"));
}

TEST(Spec, CountsAreChecked) {
  const auto bad = [](const std::string& spec) {
    return refusal_of([&] { (void)generate(spec, {}); });
  };
  EXPECT_TRUE(says(bad("counts:"), "expert 0 is ''"));
  EXPECT_TRUE(says(bad("counts:1,,2"), "expert 1 is ''"));
  EXPECT_TRUE(says(bad("counts:1,"), "expert 1 is ''"));
  EXPECT_TRUE(says(bad("counts:1,-2"), "'-2'"));
  EXPECT_TRUE(says(bad("counts:1.5"), "'1.5'"));
  EXPECT_TRUE(says(bad("counts:9223372036854775807,1"), "sum"));
  EXPECT_TRUE(says(bad("counts:9223372036854775808"),
                   "SPEC 'counts:9223372036854775808': count of expert 0 is '9223372036854775808', "
                   "expected a whole number from 0 to 9223372036854775807"));
  EXPECT_TRUE(says(bad("counts:100,200,300,400,500,600,700,800,900,x"),
                   "SPEC 'counts:100,200,300,400,500,600,700,800,9...': count"));
  EXPECT_TRUE(says(bad("counts:x"), "SPEC 'counts:x': count"));
  EXPECT_TRUE(says(bad("hotspot:0.5,99999999999999999999"), "from 1 to 9223372036854775807"));
}

}  // namespace
}  // namespace moesaic::routing::testing
