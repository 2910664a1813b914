// Reference-counted objects with identity, shared with Python when a binding is loaded.
//
// An object starts with a C++ count. Once a binding gives it a Python object, that object's own count
// takes over: every reference held from C++ is then one Python reference, so a Python subclass lives as
// long as C++ holds it, and the cycle collector sees each held reference exactly once.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "orlop/base/export.hpp"

struct _object;  // PyObject, opaque here: the core never touches it.

namespace orlop::inline v0 {

class Object;
template <class T>
class Ref;

/// Receives every counted reference an object holds; see Object::visit_references.
class ORLOP_API ReferenceVisitor {
 public:
  virtual void visit(const Object* held) = 0;
  /// A held Python object that is no Object of ours.
  virtual void visit_python(_object* held) = 0;
  template <class T>
  void visit(const Ref<T>& held) {
    if (held) visit(static_cast<const Object*>(held.get()));
  }

 protected:
  ~ReferenceVisitor() = default;
};

/// Base of carriers, operations and tensors: an intrusive count and an optional Python object.
class ORLOP_API Object {
 public:
  Object() noexcept = default;
  Object(const Object&) noexcept {}
  Object& operator=(const Object&) noexcept { return *this; }
  virtual ~Object();

  void inc_ref() const noexcept;
  /// Drops one reference; destroys the object with the last one.
  void dec_ref() const noexcept;

  /// The Python object that owns this one, or null.
  [[nodiscard]] _object* python_object() const noexcept {
    const std::uintptr_t state = state_.load(std::memory_order_acquire);
    return (state & 1) != 0 ? nullptr : reinterpret_cast<_object*>(state);
  }
  /// Hands the count over to `owner`; the same one again changes nothing. Called by a binding, with the
  /// interpreter's lock held.
  void set_python_object(_object* owner) noexcept;

  /// The number of C++ references, or -1 when Python counts them.
  [[nodiscard]] std::intptr_t reference_count() const noexcept {
    const std::uintptr_t state = state_.load(std::memory_order_acquire);
    return (state & 1) != 0 ? static_cast<std::intptr_t>(state >> 1) : -1;
  }

  /// Reports each held counted reference once, for the cycle collector.
  virtual void visit_references(ReferenceVisitor&) const {}
  /// Drops every held counted reference (the collector found a cycle); later use must raise, never crash.
  virtual void drop_references() noexcept {}

 private:
  // Odd: (count << 1) | 1. Even: the Python object's address.
  mutable std::atomic<std::uintptr_t> state_{1};
};

/// Owning handle of a counted object.
template <class T>
class Ref {
 public:
  constexpr Ref() noexcept = default;
  constexpr Ref(std::nullptr_t) noexcept {}
  Ref(T* object) noexcept : object_(object) { retain(); }
  Ref(const Ref& other) noexcept : object_(other.object_) { retain(); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
    requires std::is_convertible_v<U*, T*>
  Ref(const Ref<U>& other) noexcept : object_(other.get()) {
    retain();
  }
  template <class U>
    requires std::is_convertible_v<U*, T*>
  Ref(Ref<U>&& other) noexcept : object_(other.detach()) {}
  ~Ref() { reset(); }
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  void reset() noexcept {
    if (T* old = std::exchange(object_, nullptr)) old->dec_ref();
  }
  /// Gives the reference to the caller.
  [[nodiscard]] T* detach() noexcept { return std::exchange(object_, nullptr); }
  [[nodiscard]] T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  template <class U>
  friend bool operator==(const Ref& a, const Ref<U>& b) noexcept {
    return static_cast<const void*>(a.get()) == static_cast<const void*>(b.get());
  }

 private:
  void retain() const noexcept {
    if (object_ != nullptr) object_->inc_ref();
  }
  T* object_ = nullptr;
};

template <class T, class... Args>
[[nodiscard]] Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

/// Drops `held` without recursion: a chain of owners, each released in its owner's destructor, of any length.
ORLOP_API void release_iteratively(Ref<Object> held) noexcept;

namespace detail {
/// How a binding counts references on Python objects; both take the interpreter's lock themselves.
struct PythonCounting {
  void (*inc_ref)(_object*) noexcept;
  void (*dec_ref)(_object*) noexcept;
};
/// Called once by the Python binding before any object gets a Python object.
ORLOP_API void install_python_counting(PythonCounting counting) noexcept;
}  // namespace detail

}  // namespace orlop::inline v0
