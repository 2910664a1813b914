// Dtype descriptors: process-wide singletons, compared by address (M101–M112).
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orlop/base/export.hpp"
#include "orlop/base/message.hpp"
#include "orlop/base/object.hpp"
#include "orlop/dtype/storage_type.hpp"
#include "orlop/dtype/structure.hpp"

struct _object;  // PyObject, opaque here.

namespace orlop::inline v0 {

class BlockScaledDType;
class CompoundDType;
class DTypeCategory;
class RepresentationRule;
class SimpleDType;
namespace detail {
struct BuiltinConstruction;
template <class T>
struct Draft;
}  // namespace detail

/// Base of every descriptor. A published descriptor lives until the process ends, never changes, and is the
/// only one of its name: keep references or pointers to it freely, from any thread.
class ORLOP_API DType {
 public:
  DType(const DType&) = delete;
  DType& operator=(const DType&) = delete;
  virtual ~DType();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The category directly above, or null at the root.
  [[nodiscard]] const DTypeCategory* supertype() const noexcept { return supertype_; }
  /// All categories above, nearest first.
  [[nodiscard]] std::vector<const DTypeCategory*> supertypes() const;
  [[nodiscard]] bool is_category() const noexcept { return kind_ == Kind::category; }
  [[nodiscard]] bool is_simple() const noexcept { return kind_ == Kind::simple; }
  [[nodiscard]] bool is_compound() const noexcept { return kind_ == Kind::compound; }
  /// An opaque category (M105); promises no carrier.
  [[nodiscard]] bool is_opaque_storage() const noexcept { return is_opaque_storage_; }
  /// Reflexive: itself, or `other` is among the supertypes.
  [[nodiscard]] bool is_subtype_of(const DType& other) const noexcept;
  /// The rules that every representation must pass, in order; empty unless compound.
  [[nodiscard]] virtual std::span<const Ref<const RepresentationRule>> representation_rules() const noexcept;
  /// The written form of the meaning (M111).
  [[nodiscard]] Structure structure() const;
  /// `SimpleDType('Float32')`.
  [[nodiscard]] std::string to_string() const;

  /// How a slot of exactly this dtype lies in memory; `other` for all but Float32, Int32 and Bool.
  [[nodiscard]] StorageType storage_type() const noexcept { return storage_type_; }
  [[nodiscard]] Index slot_bytes() const noexcept { return orlop::slot_bytes(storage_type_); }

  /// Every descriptor of this class in registration order; each class of descriptors has its own.
  [[nodiscard]] static std::vector<const DType*> registered();
  /// The descriptor of this name, or LookupError; a descriptor of another class is a LookupError too.
  [[nodiscard]] static const DType& from_name(std::string_view name);

  /// The Python object of this descriptor, or null; for the bindings.
  [[nodiscard]] _object* python_object() const noexcept {
    return python_object_.load(std::memory_order_acquire);
  }
  void set_python_object(_object* object) const noexcept {
    python_object_.store(object, std::memory_order_release);
  }

 protected:
  enum class Kind : std::uint8_t { category, simple, compound };

  DType(Kind kind, std::string name, const DTypeCategory* supertype, bool is_opaque_storage = false);

  /// What a class outside the library adds to the structure; runs once, at publication.
  [[nodiscard]] virtual Structure structure_extension() const { return {}; }
  /// This class's own part of the structure, after those of its bases.
  virtual void append_structure(Structure& structure) const = 0;
  [[nodiscard]] virtual std::string_view class_name() const noexcept = 0;

 private:
  friend struct detail::BuiltinConstruction;
  friend ORLOP_API const DType& publish(std::unique_ptr<DType> draft);
  friend ORLOP_API const DType& publish(std::unique_ptr<DType> draft, Structure extension,
                                        _object* python_object);

  Kind kind_;
  bool is_opaque_storage_;
  StorageType storage_type_ = StorageType::other;
  const DTypeCategory* supertype_;
  std::string name_;
  Structure extension_;
  mutable std::atomic<_object*> python_object_{nullptr};
};

/// Identity: a descriptor equals only itself.
[[nodiscard]] inline bool operator==(const DType& a, const DType& b) noexcept { return &a == &b; }

/// A descriptor or none: what option structs and records hold.
/// `DTypeRef chosen = dtypes::Float32; if (chosen == dtypes::Int32) …`
template <class T>
class DescriptorRef {
 public:
  constexpr DescriptorRef() noexcept = default;
  constexpr DescriptorRef(std::nullptr_t) noexcept {}
  constexpr DescriptorRef(const T& dtype) noexcept : dtype_(&dtype) {}
  constexpr DescriptorRef(const T* dtype) noexcept : dtype_(dtype) {}
  template <std::derived_from<T> U>
  constexpr DescriptorRef(DescriptorRef<U> other) noexcept : dtype_(other.get()) {}

  [[nodiscard]] constexpr const T* get() const noexcept { return dtype_; }
  [[nodiscard]] constexpr const T& operator*() const noexcept { return *dtype_; }
  constexpr const T* operator->() const noexcept { return dtype_; }
  constexpr explicit operator bool() const noexcept { return dtype_ != nullptr; }
  friend constexpr bool operator==(DescriptorRef, DescriptorRef) noexcept = default;

 private:
  const T* dtype_ = nullptr;
};

using DTypeRef = DescriptorRef<DType>;
using CategoryRef = DescriptorRef<DTypeCategory>;
using SimpleRef = DescriptorRef<SimpleDType>;

/// A set of dtypes; `opaque_storage` marks the legacy categories that name a storage (M104).
class ORLOP_API DTypeCategory : public DType {
 public:
  struct Options {
    CategoryRef supertype = {};
    bool opaque_storage = false;
  };
  /// Registers a new category. Errors: ValueError for an empty or used name.
  static const DTypeCategory& make(std::string name, Options options);
  [[nodiscard]] static std::vector<const DTypeCategory*> registered();
  [[nodiscard]] static const DTypeCategory& from_name(std::string_view name);

 protected:
  DTypeCategory(std::string name, Options options);
  void append_structure(Structure& structure) const override;
  [[nodiscard]] std::string_view class_name() const noexcept override { return "DTypeCategory"; }
};

/// A dtype whose values are one bit pattern of a fixed width.
class ORLOP_API SimpleDType : public DType {
 public:
  struct Options {
    Index bits = 0;
    CategoryRef supertype = {};
  };
  /// Registers a new simple dtype: `SimpleDType::make("Float16", {.bits = 16, .supertype =
  /// dtypes::Floating})`. Errors: TypeError without a supertype; ValueError for the name or for bits < 1.
  static const SimpleDType& make(std::string name, Options options);
  [[nodiscard]] static std::vector<const SimpleDType*> registered();
  [[nodiscard]] static const SimpleDType& from_name(std::string_view name);

  [[nodiscard]] Index bits() const noexcept { return bits_; }

 protected:
  SimpleDType(std::string name, Options options);
  void append_structure(Structure& structure) const override;
  [[nodiscard]] std::string_view class_name() const noexcept override { return "SimpleDType"; }

 private:
  Index bits_;
};

/// Records the structure and makes `draft` visible, or raises ValueError and forgets it (M107).
ORLOP_API const DType& publish(std::unique_ptr<DType> draft);
/// The same with the structure extension already at hand, and the Python object that stands for it.
ORLOP_API const DType& publish(std::unique_ptr<DType> draft, Structure extension, _object* python_object);

namespace detail {
/// Opens the protected constructors to the two ways that publish what they build: make_dtype and the
/// bindings.
template <class T>
struct Draft final : T {
  template <class... Args>
  explicit Draft(Args&&... args) : T(std::forward<Args>(args)...) {}
};
}  // namespace detail

/// Builds and registers a descriptor of a class defined outside the library.
template <std::derived_from<DType> T, class... Args>
const T& make_dtype(Args&&... args) {
  auto draft = std::make_unique<detail::Draft<T>>(std::forward<Args>(args)...);
  const T& dtype = *draft;
  publish(std::move(draft));
  return dtype;
}

/// The receiver's own descriptor of a name and structure that came from elsewhere (M112). Errors: LookupError
/// where the name is unknown, ValueError where it means something else here.
[[nodiscard]] ORLOP_API const DType& resolve_dtype(std::string_view name, const Structure& structure);

namespace detail {
/// Constructs the built-ins when the first translation unit that can see them starts, as <iostream> does for
/// its streams: other units' static tables may then name and ask them. Their addresses are constants.
struct ORLOP_API BuiltinConstruction {
  BuiltinConstruction();
};
static const BuiltinConstruction builtin_construction;
}  // namespace detail

/// Every built-in, in registration order.
[[nodiscard]] ORLOP_API std::span<const DType* const> builtin_dtypes() noexcept;

/// The built-in descriptors (M104, M206).
namespace dtypes {
extern ORLOP_API const DTypeCategory& Any;
extern ORLOP_API const DTypeCategory& Floating;
extern ORLOP_API const DTypeCategory& Integer;
extern ORLOP_API const SimpleDType& Bool;
extern ORLOP_API const SimpleDType& Int32;
extern ORLOP_API const SimpleDType& Int8;
extern ORLOP_API const SimpleDType& Float32;
extern ORLOP_API const SimpleDType& Float64;
extern ORLOP_API const SimpleDType& E8M0;
extern ORLOP_API const SimpleDType& E5M2;
extern ORLOP_API const SimpleDType& E4M3;
extern ORLOP_API const SimpleDType& E3M2;
extern ORLOP_API const SimpleDType& E2M3;
extern ORLOP_API const SimpleDType& E2M1;
extern ORLOP_API const BlockScaledDType& MXFP8_E4M3;
extern ORLOP_API const BlockScaledDType& MXFP8_E5M2;
extern ORLOP_API const BlockScaledDType& MXINT8;
extern ORLOP_API const BlockScaledDType& MXFP6_E3M2;
extern ORLOP_API const BlockScaledDType& MXFP6_E2M3;
extern ORLOP_API const BlockScaledDType& MXFP4;
extern ORLOP_API const BlockScaledDType& NVFP4;
}  // namespace dtypes

}  // namespace orlop::inline v0

template <class T>
struct std::hash<orlop::DescriptorRef<T>> {
  std::size_t operator()(orlop::DescriptorRef<T> dtype) const noexcept {
    return std::hash<const T*>()(dtype.get());
  }
};
