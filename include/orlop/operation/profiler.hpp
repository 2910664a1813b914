// Profiling of dispatched operations on one thread (P95–P100): which ran, on which class, nested how, for how
// long.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "orlop/base/error.hpp"
#include "orlop/base/export.hpp"
#include "orlop/base/object.hpp"
#include "orlop/layout/shape.hpp"
#include "orlop/storage/carrier_class.hpp"

namespace orlop::inline v0 {

/// The exact class of an operation, native or Python.
class ORLOP_API ImplementationType {
 public:
  /// `name` is for reading.
  ImplementationType(const Object& operation, std::string name);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::type_info& native_type() const noexcept { return *native_type_; }
  /// The Python class object, or null for an operation that Python never saw.
  [[nodiscard]] _object* python_type() const noexcept { return static_cast<_object*>(python_type_.get()); }

 private:
  std::string name_;
  const std::type_info* native_type_;
  std::shared_ptr<void> python_type_;
};

/// One shape per positional argument, nothing for those that are no Tensor.
using InputShapes = std::vector<std::optional<Shape>>;

/// One call of a dispatched operation. Times are of the host's monotonic clock.
struct ProfilerEvent {
  std::int64_t id;                        ///< position in start order, from 0
  std::optional<std::int64_t> parent_id;  ///< the nearest selected operation around it
  std::string name;                       ///< the dispatch name
  CarrierClass carrier_type;
  ImplementationType implementation_type;
  std::optional<InputShapes> input_shapes;  ///< nothing without record_shapes
  std::int64_t start_time_ns;
  std::int64_t duration_ns;
  std::int64_t self_time_ns;  ///< without the time of immediate children, selected or not
  std::uint64_t thread_id;
  bool succeeded;
};

/// All events of one name and carrier class, and of the same shapes if so asked.
struct ProfilerAggregate {
  std::string name;
  CarrierClass carrier_type;
  std::optional<InputShapes> input_shapes;
  std::int64_t count;
  std::int64_t total_time_ns;
  std::int64_t self_total_time_ns;
  double mean_time_ns;
  std::int64_t min_time_ns;
  std::int64_t max_time_ns;
};

/// Values of a hierarchy that changed their tier, as a whole or a tile of them.
struct ResidencyTransition {
  std::string name;           ///< "evict" or "promote"
  CarrierClass carrier_type;  ///< of the hierarchy
  Index bytes;                ///< that the values take
  std::int64_t start_time_ns;
  std::int64_t duration_ns;
  std::uint64_t thread_id;  ///< of the caller
  bool succeeded;
};

struct ProfilerOptions {
  /// The exact classes to record; nothing: all.
  std::optional<std::vector<CarrierClass>> carriers = std::nullopt;
  bool record_shapes = false;
};

struct KeyAveragesOptions {
  bool group_by_input_shape = false;
};

struct ProfilerTableOptions {
  std::string sort_by = "self_total_time_ns";  ///< a field of ProfilerAggregate
  bool descending = true;
  bool group_by_input_shape = false;
  std::optional<Index> row_limit = std::nullopt;
};

namespace detail {
class ProfilerSession;
}

/// Records the operations that the entering thread runs between `enter` and `exit`. Used once.
///
///     Profiler profiler({.record_shapes = true});
///     { const auto scope = profiler.scope(); relu(x); }
///     std::cout << profiler.table();
class ORLOP_API Profiler {
 public:
  explicit Profiler(ProfilerOptions options = {});
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;
  /// A profiler still active is abandoned: its thread can open another.
  ~Profiler();

  /// Starts recording on this thread. Errors: RuntimeError where it was ever entered before, or another
  /// profiler is active on this thread.
  void enter();
  /// Freezes the results. Errors: RuntimeError where it is not active; from another thread than the entering
  /// one the session is abandoned besides, and its events are dropped.
  void exit();

  /// Enters now, exits at the end of the scope.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(Profiler& profiler) : profiler_(profiler) { profiler_.enter(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { profiler_.exit_quietly(); }

   private:
    Profiler& profiler_;
  };
  Scope scope() { return Scope(*this); }

  /// In start order. RuntimeError before exit. A move that ends after exit joins them then, so that later ids
  /// move up; what was returned before stays as it was.
  [[nodiscard]] const std::vector<ProfilerEvent>& events() const;
  /// What changed its tier meanwhile, in start order; no events. RuntimeError before exit.
  [[nodiscard]] std::vector<ResidencyTransition> transitions() const;
  /// Ascending by name, class, shapes. RuntimeError before exit.
  [[nodiscard]] std::vector<ProfilerAggregate> key_averages(const KeyAveragesOptions& options = {}) const;
  /// The averages as aligned text. ValueError for an unknown `sort_by` or a negative row limit; RuntimeError
  /// before exit.
  [[nodiscard]] std::string table(const ProfilerTableOptions& options = {}) const;

 private:
  void exit_quietly() noexcept;

  std::shared_ptr<detail::ProfilerSession> session_;
};

namespace detail {

/// What Operation tells about a call, asked only while a profiler is active.
struct ProfiledCall {
  std::string name;
  CarrierClass carrier_type;
  ImplementationType implementation_type;
};

/// The session of this thread, or null.
extern ORLOP_API constinit thread_local ProfilerSession* active_profiler_session;

/// Starts an event; null where the session takes no more.
ORLOP_API std::shared_ptr<ProfilerSession> begin_profiled_call(ProfilerSession& session);
ORLOP_API bool records_shapes(const ProfilerSession& session) noexcept;
/// Opens the call and gives its place on the stack.
ORLOP_API std::size_t open_profiled_call(ProfilerSession& session, ProfiledCall call,
                                         std::optional<InputShapes> shapes);
ORLOP_API void close_profiled_call(ProfilerSession& session, std::size_t place, bool succeeded) noexcept;

/// The range of one profiled call (P97). It costs one thread-local load while no profiler is active.
class ProfiledSpan {
 public:
  /// Nothing happens unless `is_profiled`. `describe()` gives the ProfiledCall, `shapes()` its InputShapes.
  template <class Describe, class Shapes>
  ProfiledSpan(bool is_profiled, const Describe& describe, const Shapes& shapes) {
    if (active_profiler_session != nullptr && is_profiled) [[unlikely]]
      open(describe, shapes);
  }
  ProfiledSpan(const ProfiledSpan&) = delete;
  ProfiledSpan& operator=(const ProfiledSpan&) = delete;
  ~ProfiledSpan() {
    if (session_ != nullptr) close_profiled_call(*session_, place_, succeeded_);
  }
  /// The result is there and a Tensor.
  void succeed() noexcept { succeeded_ = true; }

 private:
  template <class Describe, class Shapes>
  void open(const Describe& describe, const Shapes& shapes) {
    session_ = begin_profiled_call(*active_profiler_session);
    if (session_ == nullptr) return;
    std::optional<InputShapes> recorded;
    if (records_shapes(*session_)) recorded = shapes();
    place_ = open_profiled_call(*session_, describe(), std::move(recorded));
  }

  std::shared_ptr<ProfilerSession> session_;
  std::size_t place_ = 0;
  bool succeeded_ = false;
};

/// An event beside the nested calls: its parent is the one given, and its time is in nobody's self time
/// (S420). It may end on another thread, and after the profiler's exit.
class ORLOP_API DetachedSpan {
 public:
  /// Nothing happens while no profiler is active on this thread or the carrier class is not selected.
  template <class Describe, class Shapes>
  DetachedSpan(std::optional<std::int64_t> parent, const Describe& describe, const Shapes& shapes) {
    if (active_profiler_session == nullptr) [[likely]]
      return;
    session_ = begin_profiled_call(*active_profiler_session);
    if (session_ == nullptr) return;
    open(parent, describe(), records_shapes(*session_) ? std::optional<InputShapes>(shapes()) : std::nullopt);
  }
  DetachedSpan(const DetachedSpan&) = delete;
  DetachedSpan& operator=(const DetachedSpan&) = delete;
  ~DetachedSpan() { close(false); }
  /// Stands for the event as the parent of another one; nothing where none is recorded.
  [[nodiscard]] std::optional<std::int64_t> id() const noexcept {
    return event_ ? std::optional(event_->id) : std::nullopt;
  }
  /// Ends the event, once.
  void close(bool succeeded) noexcept;
  /// There is no such event after all.
  void discard() noexcept { session_.reset(); }

 private:
  void open(std::optional<std::int64_t> parent, ProfiledCall call, std::optional<InputShapes> shapes);

  std::shared_ptr<ProfilerSession> session_;
  std::optional<ProfilerEvent> event_;
};

/// The range of one residency transition. It may end on another thread, and after the profiler's exit.
class ORLOP_API ResidencySpan {
 public:
  /// Nothing happens while no profiler is active on this thread or the carrier class is not selected.
  ResidencySpan(std::string_view name, CarrierClass carrier_type, Index bytes) {
    if (active_profiler_session != nullptr) [[unlikely]]
      open(name, carrier_type, bytes);
  }
  ResidencySpan(const ResidencySpan&) = delete;
  ResidencySpan& operator=(const ResidencySpan&) = delete;
  ~ResidencySpan() { close(false); }
  /// Ends the transition, once.
  void close(bool succeeded) noexcept;

 private:
  void open(std::string_view name, CarrierClass carrier_type, Index bytes);

  std::shared_ptr<ProfilerSession> session_;
  std::optional<ResidencyTransition> transition_;
};

/// How a binding sees classes: the Python class of an operation (held), and the text a carrier class sorts
/// by.
struct ProfilerClassNaming {
  std::shared_ptr<void> (*python_type)(const Object& operation);
  std::string (*sort_text)(CarrierClass carrier_class);
};
ORLOP_API void install_profiler_class_naming(ProfilerClassNaming naming) noexcept;

}  // namespace detail

}  // namespace orlop::inline v0
