// SPDX-License-Identifier: Apache-2.0
// L0: the one macro that lets a function of math/ be called on the host and in a kernel.
#pragma once

#if defined(__CUDACC__)
#define MOESAIC_HD __host__ __device__
#else
#define MOESAIC_HD
#endif
