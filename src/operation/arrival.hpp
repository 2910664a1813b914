// Operands that are still on their way into memory while a kernel reads them.
#pragma once

#include <cstddef>

namespace orlop::inline v0 {

/// Memory that fills while it is read. Any thread may ask at any time; whoever asks may bring the bytes
/// itself.
class Arrival {
 public:
  Arrival() = default;
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;
  virtual ~Arrival() = default;

  /// Returns when the bytes from `first` up to `last` have come; throws where they cannot be brought.
  virtual void require(const std::byte* first, const std::byte* last) = 0;
  virtual void require_all() = 0;
};

}  // namespace orlop::inline v0
