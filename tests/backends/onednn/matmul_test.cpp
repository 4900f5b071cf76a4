// SPDX-License-Identifier: Apache-2.0
// Compiled products and their cache: hits, eviction of the least recently used, several threads.
#include "backends/onednn/matmul.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/onednn/widened.hpp"
#include "support/expect_error.hpp"

namespace moesaic::backends::onednn {
namespace {

using moesaic::testing::expect_error;

constexpr std::int64_t kN = 8, kK = 16;

MatmulSpec spec_of(std::int64_t m) {
  MatmulSpec spec;
  spec.m = m;
  spec.n = kN;
  spec.k = kK;
  spec.ab_dtype = DType::f32;
  spec.d_dtype = DType::f32;
  spec.a_row_stride = kK;
  spec.b_row_stride = 1;  // [n, k] in memory
  spec.b_column_stride = kK;
  spec.d_row_stride = kN;
  return spec;
}

/// Whether the product of small integers is right.
bool is_right(const Matmul& matmul, std::int64_t m) {
  std::vector<float> a(static_cast<std::size_t>(m * kK)), b(kN * kK),
      d(static_cast<std::size_t>(m * kN), -1);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i % 5) - 2;
  }
  for (std::size_t i = 0; i < b.size(); ++i) {
    b[i] = static_cast<float>(i % 7) - 3;
  }
  std::vector<std::byte> scratch(matmul.scratch_bytes() + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(scratch.data());
  matmul.run(a.data(), b.data(), d.data(), scratch.data() + (64 - address % 64) % 64);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < kN; ++j) {
      float sum = 0;
      for (std::int64_t c = 0; c < kK; ++c) {
        sum += a[static_cast<std::size_t>(i * kK + c)] * b[static_cast<std::size_t>(j * kK + c)];
      }
      if (d[static_cast<std::size_t>(i * kN + j)] != sum) {
        return false;
      }
    }
  }
  return true;
}

TEST(MatmulCache, GivesTheSameProductAgain) {
  MatmulCache cache;
  const auto first = cache.get(spec_of(5));
  EXPECT_EQ(cache.get(spec_of(5)), first);
  EXPECT_NE(cache.get(spec_of(6)), first);
  MatmulSpec other = spec_of(5);
  other.accumulate = true;
  EXPECT_NE(cache.get(other), first);
  other = spec_of(5);
  other.d_row_stride = 2 * kN;
  EXPECT_NE(cache.get(other), first);
  other = spec_of(5);
  other.threads = 2;
  EXPECT_NE(cache.get(other), first);
  EXPECT_TRUE(is_right(*first, 5));
}

TEST(MatmulCache, DropsTheLeastRecentlyUsed) {
  MatmulCache cache;
  const auto oldest = cache.get(spec_of(1));
  const auto touched = cache.get(spec_of(2));
  const std::weak_ptr<const Matmul> unheld = cache.get(spec_of(3));
  for (std::int64_t m = 4; m <= 700; ++m) {
    cache.get(spec_of(m));
    ASSERT_EQ(cache.get(spec_of(2)), touched) << m;  // in use, so never dropped
  }
  EXPECT_TRUE(unheld.expired());
  EXPECT_NE(cache.get(spec_of(1)), oldest);
  EXPECT_TRUE(is_right(*oldest, 1)) << "one in use outlives its place in the cache";
  EXPECT_TRUE(is_right(*cache.get(spec_of(1)), 1));
  EXPECT_TRUE(is_right(*cache.get(spec_of(700)), 700));
}

TEST(MatmulCache, ServesSeveralThreads) {
  MatmulCache cache;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::int64_t round = 0; round < 600; ++round) {
        const std::int64_t m = 1 + (round * 7 + thread) % 530;  // more than the cache holds
        const std::shared_ptr<const Matmul> matmul = cache.get(spec_of(m));
        if (round % 20 == 0) {
          wrong += is_right(*matmul, m) ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Compile, SaysWhatItCannot) {
  MatmulSpec spec = spec_of(4);
  spec.a_row_stride = 1;  // rows overlap: oneDNN refuses
  spec.a_column_stride = 1;
  expect_error(ErrorCode::unsupported, {"oneDNN " + version(), "m 4", "n 8", "k 16"},
               [&] { compile(spec); });
}

/// oneDNN's own exception never leaves: what it refuses is an Error that says what was asked.
TEST(Pack, SaysWhatItCannot) {
  MatmulSpec spec = spec_of(4);
  spec.packed_for_m = 4;
  std::vector<float> b(kN * kK), packed(packed_bytes(spec) / sizeof(float) + 1);
  EXPECT_NO_THROW(pack(spec, b.data(), packed.data()));
  spec.b_row_stride = -5;
  expect_error(ErrorCode::unsupported, {"oneDNN " + version(), "pack", "n 8", "k 16"},
               [&] { pack(spec, b.data(), packed.data()); });
  spec.n = -8;
  expect_error(ErrorCode::unsupported, {"oneDNN " + version(), "n -8", "k 16"},
               [&] { packed_bytes(spec); });
}

TEST(Compile, F32IsMultipliedEverywhere) {
  EXPECT_TRUE(supports_f32().ok);
  EXPECT_EQ(version().find("2."), 0u) << version();
}

// What a processor without AVX-512 runs must agree with what this one runs, whichever that is.
TEST(Widened, SmallIntegersExactlyWithAndWithoutAccumulation) {
  MatmulSpec spec = spec_of(5);
  spec.ab_dtype = spec.d_dtype = DType::bf16;
  std::vector<BFloat16> a(5 * 16), b(16 * 8), got(5 * 8), want(5 * 8);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = BFloat16(static_cast<float>(i % 5) - 2.0F);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = BFloat16(static_cast<float>(i % 3) - 1.0F);
  for (const bool accumulate : {false, true}) {
    spec.accumulate = accumulate;
    for (std::size_t row = 0; row < 5; ++row) {
      for (std::size_t column = 0; column < 8; ++column) {
        float sum = accumulate ? 3.0F : 0.0F;
        for (std::size_t i = 0; i < 16; ++i) {
          const std::size_t at = i * static_cast<std::size_t>(spec.b_row_stride) +
                                 column * static_cast<std::size_t>(spec.b_column_stride);
          sum += static_cast<float>(a[row * 16 + i]) * static_cast<float>(b[at]);
        }
        want[row * 8 + column] = BFloat16(sum);
        got[row * 8 + column] = BFloat16(3.0F);
      }
    }
    const std::shared_ptr<const Matmul> product = compile_widened(spec);
    std::vector<std::byte> scratch(product->scratch_bytes() + 64);
    const std::size_t skip = (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64;
    product->run(a.data(), b.data(), got.data(), scratch.data() + skip);
    EXPECT_EQ(got, want) << "accumulate " << accumulate;
  }
}

}  // namespace
}  // namespace moesaic::backends::onednn
