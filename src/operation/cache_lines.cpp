// The baseline unit of the moves of cache lines, and the choice among the units.
#include "operation/cache_lines.hpp"

#include "operation/cache_lines_unit.hpp"
#include "operation/processor.hpp"

namespace orlop::inline v0 {

#if defined(__x86_64__)
namespace x86_64_v3 {
const CacheLines* cache_lines_unit();
}
namespace x86_64_v4 {
const CacheLines* cache_lines_unit();
}
#endif

const CacheLines& cache_lines() {
#if defined(__x86_64__)
  static const CacheLines* const chosen =
      native_of(baseline::cache_lines_unit, x86_64_v3::cache_lines_unit, x86_64_v4::cache_lines_unit)();
  return *chosen;
#else
  return *baseline::cache_lines_unit();
#endif
}

}  // namespace orlop::inline v0
