// What the fuzzers of array files share: any bytes as a file, and a load judged.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "orlop/base/error.hpp"
#include "orlop/interop/array_files.hpp"

namespace orlop::fuzz {

/// Bytes as a regular file, in memory.
class File {
 public:
  File(const std::uint8_t* data, std::size_t bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0);
    for (std::size_t done = 0; done < bytes;) {
      const auto written = ::write(descriptor_, data + done, bytes - done);
      require(written > 0);
      done += static_cast<std::size_t>(written);
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(descriptor_); }

  [[nodiscard]] std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  /// Ends the run with a finding.
  static void require(bool condition) {
    if (!condition) std::abort();
  }

 private:
  int descriptor_;
};

/// A name for what is saved again.
inline std::filesystem::path saved_path() {
  return std::filesystem::temp_directory_path() / ("orlop-fuzz-" + std::to_string(::getpid()));
}

/// An array takes no more memory than the file has bytes, and its values are those that are loaded again.
inline void check_again(const Tensor& tensor, const Tensor& again, std::size_t bytes) {
  const Index slots = tensor.carrier()->size();
  File::require(slots * tensor.dtype().slot_bytes() <= static_cast<Index>(bytes));
  File::require(again.layout().shape() == tensor.layout().shape() && &again.dtype() == &tensor.dtype());
  const auto slot_bytes = static_cast<std::size_t>(tensor.dtype().slot_bytes());
  std::string before(static_cast<std::size_t>(slots) * slot_bytes, '\0');
  std::string after = before;
  tensor.carrier()->read_span(0, slots, before.data());
  again.carrier()->read_span(0, slots, after.data());
  File::require(before == after);
}

/// Calls `judge()`; a refusal of the file is fine, any other exception a finding.
template <class Judge>
int judged(Judge judge) {
  try {
    judge();
  } catch (const ValueError&) {
  } catch (const TypeError&) {
  }
  return 0;
}

}  // namespace orlop::fuzz
