// The FileBacked carrier: construction, factories, slot and bulk access, growth and release.
#include "orlop/carriers/file_backed/file_backed.hpp"

#include <array>
#include <vector>

#include "orlop/base/blocking.hpp"
#include "orlop/operation/operation.hpp"
#include "orlop/storage/normalize.hpp"
#include "orlop/storage/storage_dtype.hpp"

namespace orlop::inline v0 {

namespace {

const CarrierClass file_backed_class = detail::declare_shipped_class(typeid(FileBacked), "FileBacked", false);

constexpr Index kSlotBytes = 4;  // both dtypes
using Slot = std::array<std::byte, kSlotBytes>;

// What a constructor or factory takes; support as a question also includes Floating (S105).
const DType& require_constructible(const DType& dtype) {
  static const std::array<const DType*, 2> constructible{&dtypes::Float32, &dtypes::Int32};
  return validate_storage_dtype(dtype, "FileBacked", constructible);
}

}  // namespace

FileBacked::FileBacked(const DType& dtype, bool is_mutable, std::optional<std::string> filename)
    : Carrier(file_backed_class),
      dtype_(&dtype),
      is_mutable_(is_mutable),
      file_("FileBacked", std::move(filename)) {}

FileBacked::~FileBacked() = default;

Ref<FileBacked> FileBacked::make(const DType& dtype, const FileBackedOptions& options) {
  Ref<FileBacked> made =
      make_ref<FileBacked>(require_constructible(dtype), options.is_mutable, options.filename);
  const BlockingScope blocking;
  made->file_.create();
  return made;
}

Ref<FileBacked> FileBacked::unmade_like(bool is_mutable, DTypeRef dtype) const {
  return make_ref<FileBacked>(require_constructible(dtype ? *dtype : *dtype_), is_mutable, std::nullopt);
}

std::filesystem::path FileBacked::path() {
  if (!file_.is_created()) {
    require_live();
    const BlockingScope blocking;
    file_.create();
  }
  return file_.path();
}

Scalar FileBacked::get_value(Index index) const {
  check_readable(index);
  Slot slot;
  read_span(index, 1, slot.data());
  return decode_slot(*dtype_, slot.data());
}

void FileBacked::set_value(Index index, const Scalar& value) {
  check_writable(index);
  Slot slot;
  encode_slot(*dtype_, value, slot.data());
  const BlockingScope blocking;
  bool is_lost = false;
  try {
    file_.replace(slot, index * kSlotBytes, is_lost);
  } catch (...) {
    if (is_lost) advance_version();
    throw;
  }
  advance_version();
}

Ref<Carrier> FileBacked::new_like(Sequence<Scalar> values, const NewLikeOptions& options) const {
  Ref<FileBacked> result = unmade_like(options.is_mutable, options.dtype);
  const auto count = static_cast<Index>(values.size());
  std::vector<std::byte> slots(slots_to_bytes(*result->dtype_, count));
  for (std::size_t i = 0; i < values.size(); ++i)
    encode_slot(*result->dtype_, values[i], slots.data() + i * kSlotBytes);
  result->grow(count);
  result->write_span(0, count, slots.data());
  return result;
}

Ref<Carrier> FileBacked::allocate_like(Index size, const AllocateOptions& options) const {
  if (size < 0) raise<ValueError>("FileBacked", "size must not be negative: got ", size);
  Ref<FileBacked> result = unmade_like(options.is_mutable, options.dtype);
  result->grow(size);
  return result;
}

void FileBacked::read_span(Index first, Index count, void* out) const {
  Index ignored = 0;
  read_span(first, count, out, ignored);
}

void FileBacked::read_span(Index first, Index count, void* out, Index& completed_bytes) const {
  if (count == 0) return;
  const BlockingScope blocking;
  file_.read({static_cast<std::byte*>(out), static_cast<std::size_t>(count * kSlotBytes)}, first * kSlotBytes,
             &completed_bytes);
}

void FileBacked::write_span(Index first, Index count, const void* in) {
  detail::WriteProgress ignored;
  write_span(first, count, in, ignored);
}

void FileBacked::write_span(Index first, Index count, const void* in, detail::WriteProgress& progress) {
  if (count == 0) return;
  const BlockingScope blocking;
  file_.write({static_cast<const std::byte*>(in), static_cast<std::size_t>(count * kSlotBytes)},
              first * kSlotBytes, &progress);
}

void FileBacked::copy_span_to(const detail::IoTarget& to, Index to_offset, Index first, Index count) const {
  const BlockingScope blocking;
  file_.copy_to(to, to_offset, first * kSlotBytes, count * kSlotBytes);
}

void FileBacked::copy_span_from(const detail::IoTarget& from, Index from_offset, Index first, Index count) {
  const BlockingScope blocking;
  file_.copy_from(from, from_offset, first * kSlotBytes, count * kSlotBytes);
}

void FileBacked::grow(Index size) {
  const auto bytes = static_cast<Index>(slots_to_bytes(*dtype_, size));
  if (size == 0) return;
  const BlockingScope blocking;
  file_.grow(0, bytes);
  size_.store(size, std::memory_order_release);
}

std::string FileBacked::immutable_reason() const {
  return is_mutable_ ? file_.inherited_reason() : Carrier::immutable_reason();
}

bool FileBacked::stores(const DType& dtype) const {
  static const std::array<const DType*, 3> supported{&dtypes::Floating, &dtypes::Float32, &dtypes::Int32};
  return accepts_storage_dtype(dtype, supported);
}

Ref<Operation> FileBacked::make_operation(std::string_view operation_name) {
  if (Ref<Operation> view = view_operation(operation_name)) return view;
  return Carrier::make_operation(operation_name);
}

void FileBacked::on_release() {
  const BlockingScope blocking;
  file_.remove();
  size_.store(0, std::memory_order_release);
}

void FileBacked::on_allocate(Index size) { grow(size); }

void FileBacked::on_deallocate() {
  size_.store(0, std::memory_order_release);
  const BlockingScope blocking;
  file_.shrink(0);  // where this fails the next growth drops the bytes, and until then nothing reads them
}

}  // namespace orlop::inline v0
