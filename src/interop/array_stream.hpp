// The bytes of arrays between files and carriers, in blocks.
#pragma once

#include <vector>

#include "orlop/interop/array_files.hpp"
#include "orlop/io/user_file.hpp"

namespace orlop::inline v0 {

/// Bytes done of bytes in all, told to whoever wants to know.
class ProgressMeter {
 public:
  ProgressMeter(const FileProgress& progress, Index total) : progress_(progress), total_(total) {}
  void add(Index bytes) {
    done_ += bytes;
    if (progress_) progress_(done_, total_);
  }

 private:
  const FileProgress& progress_;
  Index done_ = 0;
  Index total_;
};

/// One array in a file: row-major or first mode fastest, without gaps.
struct FileArray {
  const DType* dtype = nullptr;
  std::vector<Index> extents;
  bool is_row_major = true;
  bool is_swapped = false;  ///< the byte order is not this machine's
  Index offset = 0;         ///< in the file
};

/// Its elements; ValueError naming `name` where there are none, and where their bytes leave 64 bits.
[[nodiscard]] Index element_count(std::string_view what, std::string_view name, const FileArray& array);

/// A fresh Tensor with the array's order as its layout.
[[nodiscard]] Tensor read_array(const detail::InputFile& file, const FileArray& array,
                                const Ref<Carrier>& prototype, ProgressMeter& meter);

/// What a save needs of a Tensor: one subtensor of Float32, Int32 or Bool that can be reached, at most 64
/// modes. The bytes of its elements.
[[nodiscard]] Index check_saved(std::string_view what, std::string_view name, const Tensor& tensor);

/// Writes the elements from `offset` on, row-major or first mode fastest.
void write_array(detail::OutputFile& file, Index offset, const Tensor& tensor, bool is_row_major,
                 ProgressMeter& meter);

}  // namespace orlop::inline v0
