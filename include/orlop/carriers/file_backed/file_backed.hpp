// FileBacked: slots in one temporary file each, for tensors that do not fit in memory.
//
// Protocol. The carrier owns its file; nothing else writes there. The file holds the slots in order,
// native-endian binary32 or int32, and nothing before or after. Atomic: growth from empty, and a scalar write
// as far as its old bytes could be put back; a bulk write is not. Durable: nothing, the file is scratch space
// and is never flushed. It goes on release, destruction and normal exit; a crash leaves it in its session
// directory, which the next process removes (orlop/io/session_directory.hpp). A fork's child may read it and
// neither changes nor deletes it.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>

#include "orlop/io/temporary_file.hpp"
#include "orlop/storage/carrier.hpp"

namespace orlop::inline v0 {

struct FileBackedOptions {
  std::optional<std::string> filename = std::nullopt;  ///< a bare name; absent: a unique one is generated
  bool is_mutable = true;
};

/// A temporary raw numeric file, initially empty. Stores Float32 and Int32; dispatches only views.
/// `auto file = FileBacked::make(dtypes::Float32, {.filename = "weights"}); file->allocate(1000);`
class ORLOP_API FileBacked final : public Carrier {
 public:
  /// Makes the empty file. ValueError for any dtype but Float32 and Int32 (categories too) and for a name
  /// that is not a bare file name; OSError where the file cannot be made, among them EEXIST. Nothing is
  /// replaced.
  [[nodiscard]] static Ref<FileBacked> make(const DType& dtype, const FileBackedOptions& options = {});
  ~FileBacked() override;

  /// The absolute path. A carrier that a factory made with no slots has no file until it grows or this is
  /// asked.
  [[nodiscard]] std::filesystem::path path();

  [[nodiscard]] Index size() const override { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] const DType& dtype() const override { return *dtype_; }
  [[nodiscard]] Scalar get_value(Index index) const override;
  void set_value(Index index, const Scalar& value) override;
  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> values,
                                      const NewLikeOptions& options = {}) const override;
  /// Always initialized; `empty` changes nothing.
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions& options = {}) const override;
  void read_span(Index first, Index count, void* out) const override;
  /// The same; `completed_bytes` tells, also after a failure, how many bytes of `out` may have changed.
  void read_span(Index first, Index count, void* out, Index& completed_bytes) const;
  void write_span(Index first, Index count, const void* in) override;
  /// The same; `progress` says after a failure whether anything can have changed.
  void write_span(Index first, Index count, const void* in, detail::WriteProgress& progress);
  /// Copies `count` slots from `first` to an open file, or from it, without passing them through memory of
  /// ours where the kernel can.
  void copy_span_to(const detail::IoTarget& to, Index to_offset, Index first, Index count) const;
  void copy_span_from(const detail::IoTarget& from, Index from_offset, Index first, Index count);
  [[nodiscard]] bool holes_are_zero() const noexcept override { return true; }
  [[nodiscard]] bool is_growable() const noexcept override { return true; }
  [[nodiscard]] std::string_view residency() const noexcept override { return "file"; }

 protected:
  /// False in a fork's child: the file belongs to the parent (S606).
  [[nodiscard]] bool intrinsic_mutable() const override { return is_mutable_ && !file_.is_inherited(); }
  [[nodiscard]] std::string immutable_reason() const override;
  [[nodiscard]] bool stores(const DType& dtype) const override;
  [[nodiscard]] Ref<Operation> make_operation(std::string_view operation_name) override;
  void on_release() override;
  void on_allocate(Index size) override;
  void on_deallocate() override;

 private:
  FileBacked(const DType& dtype, bool is_mutable, std::optional<std::string> filename);
  template <class T, class... Args>
  friend Ref<T> make_ref(Args&&... args);

  [[nodiscard]] Ref<FileBacked> unmade_like(bool is_mutable, DTypeRef dtype) const;
  void grow(Index size);

  const DType* dtype_;
  bool is_mutable_;
  std::atomic<Index> size_{0};
  detail::TemporaryFile file_;
};

}  // namespace orlop::inline v0
