// SPDX-License-Identifier: Apache-2.0
// Top-k ids in .npy: every integer type and order, and the traps of id dumps.
#include <cmath>

#include "routing_test_util.hpp"

namespace moesaic::routing::testing {
namespace {

/// [2 tokens, 2 layers, 2] with ids 0..3.
template <class T>
std::vector<T> eight() {
  return {0, 1, 2, 3, 1, 2, 3, 0};
}

void expect_eight(const ReadResult& r, const char* what) {
  ASSERT_EQ(r.records.size(), 2u) << what;
  EXPECT_EQ(r.records[0].counts, (Counts{1, 2, 1, 0})) << what;
  EXPECT_EQ(r.records[1].counts, (Counts{1, 0, 1, 2})) << what;
  EXPECT_EQ(r.records[1].tokens, 2) << what;
  EXPECT_EQ(r.records[1].top_k, 2) << what;
}

template <class T>
void check_type(const std::string& descr) {
  const auto values = eight<T>();
  const std::string shape = "(2, 2, 2)";
  expect_eight(read_text(make_npy("<" + descr, shape, values), "i.npy", with_experts(4)),
               descr.c_str());
  std::string swapped;
  for (const T value : values) {
    std::string bytes = bytes_of(std::vector<T>{value});
    swapped.append(bytes.rbegin(), bytes.rend());
  }
  expect_eight(read_text(make_npy(">" + descr, shape, swapped), "i.npy", with_experts(4)),
               descr.c_str());
}

TEST(NpyIds, EveryIntegerTypeInBothByteOrders) {
  check_type<std::uint8_t>("u1");
  check_type<std::int8_t>("i1");
  check_type<std::uint16_t>("u2");
  check_type<std::int16_t>("i2");
  check_type<std::uint32_t>("u4");
  check_type<std::int32_t>("i4");
  check_type<std::uint64_t>("u8");
  check_type<std::int64_t>("i8");
}

TEST(NpyIds, EveryFormatVersion) {
  for (const int version : {1, 2, 3}) {
    const auto text = make_npy("<i4", "(2, 2, 2)", bytes_of(eight<std::int32_t>()), false, version);
    expect_eight(read_text(text, "i.npy", with_experts(4)), "version");
  }
  const auto text = make_npy("<i4", "(2, 2, 2)", bytes_of(eight<std::int32_t>()), false, 4);
  EXPECT_TRUE(says(refusal(text, "i.npy", with_experts(4)), "version 4"));
}

TEST(NpyIds, FortranOrder) {
  // The element (token, layer, slot) stands at token + 2 * layer + 4 * slot.
  const std::vector<std::int32_t> values = {0, 1, 2, 3, 1, 2, 3, 0};
  std::vector<std::int32_t> fortran(8);
  for (std::size_t i = 0; i < 8; ++i)
    fortran[(i >> 2) + 2 * (i >> 1 & 1) + 4 * (i & 1)] = values[i];
  expect_eight(
      read_text(make_npy("<i4", "(2, 2, 2)", bytes_of(fortran), true), "f.npy", with_experts(4)),
      "F");
}

TEST(NpyIds, NegativeIdsArePaddingCountedApart) {
  const std::vector<std::int32_t> ids = {0, 3, 2, 1, -1, -1, 3, -1, 1, 2};
  const auto r = read_text(make_npy("<i4", "(5, 1, 2)", ids), "pad.npy", with_experts(4));
  EXPECT_EQ(r.records[0].counts, (Counts{1, 2, 2, 2}));
  EXPECT_EQ(r.records[0].invalid_slots, 3);
  EXPECT_TRUE(says(warning(r, "padding"), "invalid_slots: 3"));
}

TEST(NpyIds, AllPaddingIsARecordWithoutRows) {
  const auto r = read_text(make_npy("<i4", "(16, 1, 2)", std::vector<std::int32_t>(32, -1)),
                           "p.npy", with_experts(4));
  EXPECT_EQ(r.records[0].rows(), 0);
  EXPECT_EQ(r.records[0].invalid_slots, 32);
  EXPECT_EQ(warning(r, "identical rows"), "");
}

TEST(NpyIds, IdsPastTheLastExpertAreRefusedWithTheirPlace) {
  const auto big = make_npy("<i4", "(2, 1, 2)", std::vector<std::int32_t>{0, 1, 1, 4});
  const std::string message = refusal(big, "big.npy", with_experts(4));
  EXPECT_TRUE(says(message, "token 1, layer 0, slot 1: expert id 4"));
  EXPECT_TRUE(says(message, "1-based"));
  const std::string far = refusal(big, "big.npy", with_experts(3));
  EXPECT_TRUE(says(far, "expert id 4, expected 0 to 2"));
  EXPECT_FALSE(says(far, "1-based"));
  const auto stale = make_npy("<u8", "(1, 1, 1)", std::vector<std::uint64_t>{UINT64_MAX});
  EXPECT_TRUE(says(refusal(stale, "u.npy", with_experts(4)), "past 2^63"));
}

TEST(NpyIds, TheNumberOfExpertsMustBeGiven) {
  EXPECT_TRUE(says(refusal(make_npy("<i4", "(2, 2, 2)", eight<std::int32_t>()), "i.npy"),
                   "give --experts N"));
}

TEST(NpyIds, OtherTypesAreRefused) {
  EXPECT_TRUE(
      says(refusal(make_npy("<f4", "(4, 2)", std::vector<float>(8)), "flt.npy", with_experts(4)),
           "'<f4'"));
  EXPECT_TRUE(
      says(refusal(make_npy("|b1", "(1, 1, 2)", "\1\1"), "b.npy", with_experts(4)), "'|b1'"));
  EXPECT_TRUE(
      says(refusal(make_npy("|O", "(1, 1, 2)", "junk"), "o.npy", with_experts(4)), "pickle"));
}

TEST(NpyIds, RepeatedExpertsAreCounted) {
  const auto r =
      read_text(make_npy("<i4", "(3, 1, 2)", std::vector<std::int32_t>{0, 1, 1, 1, 0, 1}), "r.npy",
                with_experts(2));
  EXPECT_EQ(r.records[0].counts, (Counts{2, 4}));
  EXPECT_TRUE(says(warning(r, "repeated expert"), "1, first token 1, layer 0"));
}

TEST(NpyIds, RunsOfIdenticalRowsAreFoundFrom64On) {
  const auto with_run = [](int run) {
    std::vector<std::int32_t> ids = {0, 1, 2, 3};
    for (int i = 0; i < run; ++i) ids.insert(ids.end(), {1, 2});
    ids.insert(ids.end(), {0, 3});
    const std::string shape = "(" + std::to_string(run + 3) + ", 1, 2)";
    return read_text(make_npy("<i4", shape, ids), "run.npy", with_experts(4));
  };
  EXPECT_EQ(warning(with_run(63), "identical rows"), "");
  const std::string text = warning(with_run(64), "identical rows");
  EXPECT_TRUE(says(text, "64 of 67 token rows"));
  EXPECT_TRUE(says(text, "from token 2 to 65"));
}

TEST(NpyIds, ARunMustCoverAllLayers) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 100; ++i)
    ids.insert(ids.end(), {1, i % 3});  // layer 0 is constant, layer 1 is not
  EXPECT_EQ(warning(read_text(make_npy("<i4", "(100, 2, 1)", ids), "l.npy", with_experts(4)),
                    "identical"),
            "");
}

TEST(NpyMatrix, TwoDimensionsAreAmbiguousUntilTheFormIsGiven) {
  const auto text = make_npy("<i8", "(2, 3)", std::vector<std::int64_t>{1, 2, 2, 0, 2, 2});
  EXPECT_TRUE(says(refusal(text, "m.npy", with_experts(3)), "--form ids"));
  EXPECT_TRUE(says(refusal(text, "m.npy", with_experts(3)), "--form weights"));
  const auto counts = read_text(text, "m.npy", with_form(Form::counts));
  ASSERT_EQ(counts.records.size(), 2u);
  EXPECT_EQ(counts.records[1].counts, (Counts{0, 2, 2}));
  EXPECT_EQ(read_text(text, "m.npy", with_form(Form::offsets)).records[0].counts,
            (Counts{1, 1, 0}));
  EXPECT_EQ(read_text(text, "m.npy", with_form(Form::weights)).summary.form, Form::weights);
  ReadOptions ids = with_form(Form::ids);
  ids.num_experts = 3;
  const auto one_layer = read_text(text, "m.npy", ids);
  ASSERT_EQ(one_layer.records.size(), 1u);
  EXPECT_EQ(one_layer.records[0].counts, (Counts{1, 1, 4}));
}

TEST(NpyMatrix, OneDimensionIsOneLayerOnceTheFormIsGiven) {
  const auto text = make_npy("<i8", "(3,)", std::vector<std::int64_t>{4, 0, 9});
  const auto r = read_text(text, "v.npy", with_form(Form::counts));
  ASSERT_EQ(r.records.size(), 1u);
  EXPECT_EQ(r.records[0].counts, (Counts{4, 0, 9}));
  EXPECT_TRUE(says(refusal(text, "v.npy", with_experts(3)), "--form counts"));
}

TEST(NpyMatrix, FortranOrder) {
  // [[1, 2, 3], [4, 5, 6]] by columns.
  const std::vector<std::int32_t> columns = {1, 4, 2, 5, 3, 6};
  const auto text = make_npy("<i4", "(2, 3)", bytes_of(columns), true);
  const auto r = read_text(text, "f.npy", with_form(Form::counts));
  ASSERT_EQ(r.records.size(), 2u);
  EXPECT_EQ(r.records[0].counts, (Counts{1, 2, 3}));
  EXPECT_EQ(r.records[1].counts, (Counts{4, 5, 6}));
}

TEST(NpyMatrix, FloatsOfWholeNumbersAreCounts) {
  const auto whole = make_npy("<f8", "(1, 3)", std::vector<double>{2, 0, 7});
  EXPECT_EQ(read_text(whole, "w.npy", with_form(Form::counts)).records[0].counts,
            (Counts{2, 0, 7}));
  const auto narrow = make_npy("<f4", "(1, 2)", std::vector<float>{2, 5});
  EXPECT_EQ(read_text(narrow, "w.npy", with_form(Form::weights)).records[0].counts, (Counts{2, 5}));
  const auto half = make_npy("<f8", "(1, 3)", std::vector<double>{2, 0.5, 7});
  EXPECT_TRUE(says(refusal(half, "w.npy", with_form(Form::counts)), "layer 0, expert 1 is 0.5"));
  const auto nan = make_npy("<f8", "(1, 1)", std::vector<double>{std::nan("")});
  EXPECT_TRUE(says(refusal(nan, "w.npy", with_form(Form::counts)), "layer 0, expert 0 is nan"));
  EXPECT_TRUE(says(refusal(whole, "w.npy", with_form(Form::offsets)), "'<f8'"));
}

TEST(NpyMatrix, AFractionIsNamedByLayerAndExpert) {
  const std::vector<double> values = {2, 0, 7, 4, 0.5, 6};
  for (const Form form : {Form::counts, Form::weights}) {
    const auto rows = make_npy("<f8", "(2, 3)", values);
    EXPECT_TRUE(says(refusal(rows, "w.npy", with_form(form)), "layer 1, expert 1 is 0.5"));
    const auto columns = make_npy("<f8", "(2, 3)", bytes_of(values), true);
    EXPECT_TRUE(says(refusal(columns, "w.npy", with_form(form)), "layer 0, expert 2 is 0.5"));
    const auto vector = make_npy("<f8", "(6,)", values);
    EXPECT_TRUE(says(refusal(vector, "w.npy", with_form(form)), "layer 0, expert 4 is 0.5"));
  }
}

TEST(NpyMatrix, OtherDimensionsAreRefusedInTheWordsOfTheForm) {
  const auto scalar = make_npy("<i8", "()", std::vector<std::int64_t>{3});
  EXPECT_TRUE(says(refusal(scalar, "s.npy", with_form(Form::counts)),
                   "shape [], expected [layers, experts] or [experts] with --form counts"));
  EXPECT_TRUE(says(refusal(scalar, "s.npy"), "expected ids [tokens, layers, top_k]"));
  const auto real = make_npy("<f8", "()", std::vector<double>{3});
  EXPECT_TRUE(says(refusal(real, "s.npy", with_form(Form::weights)), "with --form weights"));
  const auto cube = make_npy("<i8", "(1, 1, 1)", std::vector<std::int64_t>{3});
  EXPECT_TRUE(says(refusal(cube, "c.npy", with_form(Form::offsets)), "with --form offsets"));
}

TEST(NpyMatrix, NegativeCountsAreRefused) {
  const auto text = make_npy("<i4", "(1, 2)", std::vector<std::int32_t>{1, INT32_MIN});
  EXPECT_TRUE(says(refusal(text, "m.npy", with_form(Form::counts)), "expert 1: count -2147483648"));
}

TEST(NpyHeader, AbsurdShapesAreRefusedBeforeAnythingIsAllocated) {
  const auto bad = [](const std::string& shape) {
    return refusal(make_npy("<i4", shape, std::string(8, '\0')), "s.npy", with_experts(4));
  };
  EXPECT_TRUE(says(bad("(4294967296, 4294967296, 8)"), "past 2^63 bytes"));
  EXPECT_TRUE(says(bad("(0, 4294967296, 4294967296)"), "past 2^63 bytes"));
  EXPECT_TRUE(says(bad("(1000000, 61, 8)"), "truncated"));
  EXPECT_TRUE(says(bad("(0, 1000000000, 2)"), "empty array"));
  EXPECT_TRUE(says(bad("(-1, 2, 2)"), "sizes of 0 or more"));
  EXPECT_TRUE(says(bad("(2,)"), "expected ids [tokens, layers, top_k]"));
  EXPECT_TRUE(says(bad("(1, 1, 1)"), "more data"));
  // Through gzip the size is not known beforehand: the limit on layers must hold alone.
  const auto zipped = gzipped(make_npy("<i4", "(1, 1000000000, 8)", "1234"));
  EXPECT_TRUE(says(refusal(zipped, "s.npy.gz", with_experts(4)), "1000000000 layers"));
}

TEST(NpyHeader, BrokenHeadersAreRefused) {
  const auto whole = make_npy("<i4", "(2, 2, 2)", eight<std::int32_t>());
  for (const std::size_t cut : {7u, 9u, 40u, 130u}) {
    EXPECT_TRUE(says(refusal(whole.substr(0, cut), "cut.npy", with_experts(4)), "truncated"))
        << cut;
  }
  const auto header = [](const std::string& text) {
    return refusal("\x93NUMPY" + std::string("\1\0", 2) + little_endian(text.size(), 2) + text,
                   "h.npy");
  };
  EXPECT_TRUE(says(header("{'descr': '<i4'}"), "missing"));
  EXPECT_TRUE(says(header("{'descr': [('a', '<i4')], }"), "structured"));
  EXPECT_TRUE(says(header("{'descr': '<i4', 'evil': 1}"), "unknown key 'evil'"));
  EXPECT_TRUE(says(header("hello"), "broken .npy header"));
}

}  // namespace
}  // namespace moesaic::routing::testing
