// Asking the processor.
#include "operation/processor.hpp"

namespace orlop::inline v0 {

Processor native_processor() {
#if defined(__x86_64__)
  // By the features that came last: not every compiler takes the levels themselves.
  const bool is_v3 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
  const bool is_v4 = is_v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                     __builtin_cpu_supports("avx512vl");
  if (is_v4) return Processor::x86_64_v4;
  if (is_v3) return Processor::x86_64_v3;
#endif
  return Processor::baseline;
}

bool reads_ahead_across_pages() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

}  // namespace orlop::inline v0
