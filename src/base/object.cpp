// The shared count: lock-free while C++ owns the object, Python's own count afterwards.
#include "orlop/base/object.hpp"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory_resource>
#include <new>
#include <vector>

namespace orlop::inline v0 {

namespace {
detail::PythonCounting python_counting{nullptr, nullptr};
}

namespace detail {
void install_python_counting(PythonCounting counting) noexcept { python_counting = counting; }
}  // namespace detail

Object::~Object() = default;

void Object::inc_ref() const noexcept {
  std::uintptr_t state = state_.load(std::memory_order_relaxed);
  while ((state & 1) != 0)
    if (state_.compare_exchange_weak(state, state + 2, std::memory_order_relaxed)) return;
  python_counting.inc_ref(reinterpret_cast<_object*>(state));
}

void Object::dec_ref() const noexcept {
  std::uintptr_t state = state_.load(std::memory_order_relaxed);
  while ((state & 1) != 0) {
    if (state == 1) std::abort();  // our own bug: dropped more often than taken
    if (state_.compare_exchange_weak(state, state - 2, std::memory_order_acq_rel)) {
      if (state == 3) delete this;
      return;
    }
  }
  python_counting.dec_ref(reinterpret_cast<_object*>(state));
}

void Object::set_python_object(_object* owner) noexcept {
  std::uintptr_t state = state_.load(std::memory_order_relaxed);
  if (state == reinterpret_cast<std::uintptr_t>(owner)) return;
  while (!state_.compare_exchange_weak(state, reinterpret_cast<std::uintptr_t>(owner),
                                       std::memory_order_acq_rel)) {
  }
  for (std::uintptr_t count = state >> 1; count > 0; --count) python_counting.inc_ref(owner);
}

void release_iteratively(Ref<Object> held) noexcept {
  // The outermost call on a thread empties the list; calls from destructors only add to it.
  thread_local std::pmr::vector<Ref<Object>>* pending = nullptr;
  if (!held) return;
  if (pending != nullptr) {
    try {
      pending->push_back(std::move(held));
    } catch (const std::bad_alloc&) {  // `held` goes here instead, a level deeper
    }
    return;
  }
  // A chain needs a place or two, whatever its length, and those are there without any memory.
  constexpr std::size_t places = 32;
  alignas(Ref<Object>) std::array<std::byte, places * sizeof(Ref<Object>)> room;
  std::pmr::monotonic_buffer_resource memory(room.data(), room.size());
  std::pmr::vector<Ref<Object>> list(&memory);
  list.reserve(places);
  pending = &list;
  list.push_back(std::move(held));
  while (!list.empty()) {
    Ref<Object> next = std::move(list.back());
    list.pop_back();
    next.reset();
  }
  pending = nullptr;
}

}  // namespace orlop::inline v0
