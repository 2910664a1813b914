// Profiler sessions, averages and the table of them (P95–P100).
#include "orlop/operation/profiler.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <forward_list>
#include <map>
#include <mutex>
#include <tuple>

namespace orlop::inline v0 {

namespace {

constexpr std::string_view what = "Profiler";

std::int64_t now_ns() noexcept {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

std::uint64_t this_thread() noexcept { return std::bit_cast<std::uintptr_t>(pthread_self()); }

detail::ProfilerClassNaming class_naming{nullptr, nullptr};

}  // namespace

void detail::install_profiler_class_naming(ProfilerClassNaming naming) noexcept { class_naming = naming; }

ImplementationType::ImplementationType(const Object& operation, std::string name)
    : name_(std::move(name)), native_type_(&typeid(operation)) {
  if (class_naming.python_type != nullptr) python_type_ = class_naming.python_type(operation);
}

// --- Sessions ---------------------------------------------------------------------------------------------

constinit thread_local detail::ProfilerSession* detail::active_profiler_session = nullptr;

namespace {
// Keeps this thread's session alive, whatever becomes of its Profiler.
thread_local std::shared_ptr<detail::ProfilerSession> held_session;
}  // namespace

/// One recording. Only the entering thread touches it until it is frozen; others may only abandon it.
class detail::ProfilerSession {
 public:
  enum class Phase : std::uint8_t { fresh, active, frozen, abandoned };

  explicit ProfilerSession(ProfilerOptions options) : options_(std::move(options)) {}

  static void enter(const std::shared_ptr<ProfilerSession>& session) {
    if (session->is_used_.exchange(true))
      raise<RuntimeError>(what, "this profiler was entered before; make a fresh one for each recording");
    if (active_profiler_session != nullptr && active_profiler_session->phase() == Phase::active)
      raise<RuntimeError>(what, "another profiler is active on this thread; leave it first");
    session->thread_ = this_thread();
    session->phase_ = Phase::active;
    held_session = session;
    active_profiler_session = session.get();
  }

  void exit() {
    if (phase() != Phase::active)
      raise<RuntimeError>(what, "the profiler is not active; enter it first, exit it once");
    if (active_profiler_session != this) {
      phase_ = Phase::abandoned;
      raise<RuntimeError>(what,
                          "the profiler belongs to another thread; exit it on the thread that entered it. ",
                          "Its recording is dropped");
    }
    while (!open_.empty()) close(open_.size() - 1, false);
    phase_ = Phase::frozen;
    leave_thread();
  }

  void abandon() noexcept {
    Phase expected = Phase::active;
    phase_.compare_exchange_strong(expected, Phase::abandoned);
    if (active_profiler_session == this) leave_thread();
  }

  [[nodiscard]] const std::vector<ProfilerEvent>& frozen_events() {
    require_frozen();
    const std::lock_guard lock(detached_mutex_);
    if (results_.empty() || results_.front().size() != events_.size() + detached_.size())
      results_.push_front(merged());
    return results_.front();
  }

  [[nodiscard]] Phase phase() const noexcept { return phase_.load(std::memory_order_acquire); }
  [[nodiscard]] bool records_shapes() const noexcept { return options_.record_shapes; }

  std::size_t open(ProfiledCall call, std::optional<InputShapes> shapes) {
    Open opened;
    if (is_selected(call.carrier_type)) {
      opened.event = static_cast<std::int64_t>(events_.size());
      events_.push_back({*opened.event, nearest_selected(), std::move(call.name), call.carrier_type,
                         std::move(call.implementation_type), std::move(shapes), 0, 0, 0, thread_, false});
    }
    opened.start_time_ns = now_ns();
    open_.push_back(opened);
    return open_.size() - 1;
  }

  std::optional<ProfilerEvent> open_detached(std::optional<std::int64_t> parent, ProfiledCall call,
                                             std::optional<InputShapes> shapes) {
    if (!is_selected(call.carrier_type)) return std::nullopt;
    return ProfilerEvent{next_detached_--,
                         parent,
                         std::move(call.name),
                         call.carrier_type,
                         std::move(call.implementation_type),
                         std::move(shapes),
                         now_ns(),
                         0,
                         0,
                         thread_,
                         false};
  }

  /// From any thread. Where there is no memory left the event is lost.
  void close_detached(ProfilerEvent event, bool succeeded) noexcept {
    event.duration_ns = event.self_time_ns = now_ns() - event.start_time_ns;
    event.succeeded = succeeded;
    try {
      const std::lock_guard lock(detached_mutex_);
      detached_.push_back(std::move(event));
    } catch (const std::bad_alloc&) {
    }
  }

  std::optional<ResidencyTransition> open_transition(std::string_view name, CarrierClass carrier_type,
                                                     Index bytes) {
    if (!is_selected(carrier_type)) return std::nullopt;
    return ResidencyTransition{std::string(name), carrier_type, bytes, now_ns(), 0, thread_, false};
  }

  /// From any thread, as close_detached.
  void close_transition(ResidencyTransition transition, bool succeeded) noexcept {
    transition.duration_ns = now_ns() - transition.start_time_ns;
    transition.succeeded = succeeded;
    try {
      const std::lock_guard lock(detached_mutex_);
      transitions_.push_back(std::move(transition));
    } catch (const std::bad_alloc&) {
    }
  }

  [[nodiscard]] std::vector<ResidencyTransition> frozen_transitions() {
    require_frozen();
    const std::lock_guard lock(detached_mutex_);
    std::vector<ResidencyTransition> all(transitions_);
    std::ranges::stable_sort(all, {}, &ResidencyTransition::start_time_ns);
    return all;
  }

  void close(std::size_t place, bool succeeded) noexcept {
    if (phase() != Phase::active || place >= open_.size()) return;
    const Open closed = open_[place];
    const std::int64_t duration = now_ns() - closed.start_time_ns;
    open_.resize(place);
    if (!open_.empty()) open_.back().children_ns += duration;
    if (!closed.event) return;
    ProfilerEvent& event = events_[static_cast<std::size_t>(*closed.event)];
    event.start_time_ns = closed.start_time_ns;
    event.duration_ns = duration;
    event.self_time_ns = std::max<std::int64_t>(0, duration - closed.children_ns);
    event.succeeded = succeeded;
  }

 private:
  struct Open {
    std::optional<std::int64_t> event;
    std::int64_t start_time_ns = 0;
    std::int64_t children_ns = 0;
  };

  void require_frozen() const {
    if (phase() != Phase::frozen)
      raise<RuntimeError>(what, "results are there after exit; leave the profiler's context first");
  }

  [[nodiscard]] bool is_selected(CarrierClass carrier_class) const {
    return !options_.carriers ||
           std::ranges::find(*options_.carriers, carrier_class) != options_.carriers->end();
  }

  [[nodiscard]] std::optional<std::int64_t> nearest_selected() const {
    for (auto open = open_.rbegin(); open != open_.rend(); ++open)
      if (open->event) return open->event;
    return std::nullopt;
  }

  /// All events in start order, with ids to match.
  [[nodiscard]] std::vector<ProfilerEvent> merged() const {
    std::vector<ProfilerEvent> all(events_);
    all.insert(all.end(), detached_.begin(), detached_.end());
    std::ranges::stable_sort(all, {}, &ProfilerEvent::start_time_ns);
    std::map<std::int64_t, std::int64_t> places;
    for (std::size_t i = 0; i < all.size(); ++i) places[all[i].id] = static_cast<std::int64_t>(i);
    for (ProfilerEvent& event : all) {
      event.id = places.at(event.id);
      if (event.parent_id) event.parent_id = places.at(*event.parent_id);
    }
    return all;
  }

  static void leave_thread() noexcept {
    active_profiler_session = nullptr;
    held_session.reset();
  }

  ProfilerOptions options_;
  std::atomic<bool> is_used_{false};
  std::atomic<Phase> phase_{Phase::fresh};
  std::uint64_t thread_ = 0;
  std::vector<ProfilerEvent> events_;
  std::vector<Open> open_;
  std::int64_t next_detached_ = -1;  // ids below those of events_, until they are merged
  std::mutex detached_mutex_;        // guards what follows
  std::vector<ProfilerEvent> detached_;
  std::vector<ResidencyTransition> transitions_;
  std::forward_list<std::vector<ProfilerEvent>> results_;  // the latest first
};

std::shared_ptr<detail::ProfilerSession> detail::begin_profiled_call(ProfilerSession& session) {
  if (session.phase() == ProfilerSession::Phase::active) return held_session;
  session.abandon();  // by another thread: this thread is free again
  return nullptr;
}

bool detail::records_shapes(const ProfilerSession& session) noexcept { return session.records_shapes(); }

std::size_t detail::open_profiled_call(ProfilerSession& session, ProfiledCall call,
                                       std::optional<InputShapes> shapes) {
  return session.open(std::move(call), std::move(shapes));
}

void detail::close_profiled_call(ProfilerSession& session, std::size_t place, bool succeeded) noexcept {
  session.close(place, succeeded);
}

void detail::DetachedSpan::open(std::optional<std::int64_t> parent, ProfiledCall call,
                                std::optional<InputShapes> shapes) {
  event_ = session_->open_detached(parent, std::move(call), std::move(shapes));
}

void detail::DetachedSpan::close(bool succeeded) noexcept {
  if (session_ != nullptr && event_) session_->close_detached(*std::move(event_), succeeded);
  session_.reset();
}

void detail::ResidencySpan::open(std::string_view name, CarrierClass carrier_type, Index bytes) {
  session_ = begin_profiled_call(*active_profiler_session);
  if (session_ != nullptr) transition_ = session_->open_transition(name, carrier_type, bytes);
}

void detail::ResidencySpan::close(bool succeeded) noexcept {
  if (session_ != nullptr && transition_) session_->close_transition(*std::move(transition_), succeeded);
  session_.reset();
}

Profiler::Profiler(ProfilerOptions options)
    : session_(std::make_shared<detail::ProfilerSession>(std::move(options))) {}

Profiler::~Profiler() { session_->abandon(); }

void Profiler::enter() { detail::ProfilerSession::enter(session_); }
void Profiler::exit() { session_->exit(); }

void Profiler::exit_quietly() noexcept {
  try {
    session_->exit();
  } catch (const RuntimeError&) {  // somebody exited it before the scope's end
  }
}

const std::vector<ProfilerEvent>& Profiler::events() const { return session_->frozen_events(); }

std::vector<ResidencyTransition> Profiler::transitions() const { return session_->frozen_transitions(); }

// --- Averages ---------------------------------------------------------------------------------------------

namespace {

std::string class_text(CarrierClass carrier_class) {
  return class_naming.sort_text != nullptr ? class_naming.sort_text(carrier_class)
                                           : std::string(carrier_class.name());
}

// As Python writes the nested tuples.
std::string shapes_text(const std::optional<InputShapes>& shapes) {
  if (!shapes) return "None";
  std::string out;
  for (const std::optional<Shape>& shape : *shapes)
    out += text(out.empty() ? "" : ", ", shape ? to_string(shape->top_level()) : "None");
  return text('(', out, shapes->size() == 1 ? ",)" : ")");
}

// What aggregates are keyed and, in the end, ordered by (P99).
using AggregateKey = std::tuple<std::string, std::string, std::string>;

AggregateKey key_of(const ProfilerAggregate& aggregate) {
  return {aggregate.name, class_text(aggregate.carrier_type), shapes_text(aggregate.input_shapes)};
}

}  // namespace

std::vector<ProfilerAggregate> Profiler::key_averages(const KeyAveragesOptions& options) const {
  struct Key {
    AggregateKey order;
    const void* carrier_class;  // two classes may carry one name
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, ProfilerAggregate> groups;
  for (const ProfilerEvent& event : events()) {
    const std::optional<InputShapes> shapes =
        options.group_by_input_shape ? event.input_shapes : std::nullopt;
    ProfilerAggregate first{event.name, event.carrier_type, shapes,           0, 0, 0,
                            0,          event.duration_ns,  event.duration_ns};
    AggregateKey order = key_of(first);
    ProfilerAggregate& group =
        groups.try_emplace({std::move(order), event.carrier_type.record()}, std::move(first)).first->second;
    ++group.count;
    group.total_time_ns += event.duration_ns;
    group.self_total_time_ns += event.self_time_ns;
    group.min_time_ns = std::min(group.min_time_ns, event.duration_ns);
    group.max_time_ns = std::max(group.max_time_ns, event.duration_ns);
    group.mean_time_ns = static_cast<double>(group.total_time_ns) / static_cast<double>(group.count);
  }
  std::vector<ProfilerAggregate> averages;
  averages.reserve(groups.size());
  for (auto& [key, group] : groups) averages.push_back(std::move(group));
  return averages;
}

// --- The table --------------------------------------------------------------------------------------------

namespace {

// One field of an aggregate: how to compare two by it.
struct SortField {
  std::string_view name;
  bool (*less)(const ProfilerAggregate& a, const ProfilerAggregate& b);
};

template <auto Member>
bool less_by(const ProfilerAggregate& a, const ProfilerAggregate& b) {
  return a.*Member < b.*Member;
}

constexpr std::array<SortField, 9> sort_fields{{
    {"name", less_by<&ProfilerAggregate::name>},
    {"carrier_type",
     [](const ProfilerAggregate& a, const ProfilerAggregate& b) {
       return class_text(a.carrier_type) < class_text(b.carrier_type);
     }},
    {"input_shapes",
     [](const ProfilerAggregate& a, const ProfilerAggregate& b) {
       return shapes_text(a.input_shapes) < shapes_text(b.input_shapes);
     }},
    {"count", less_by<&ProfilerAggregate::count>},
    {"total_time_ns", less_by<&ProfilerAggregate::total_time_ns>},
    {"self_total_time_ns", less_by<&ProfilerAggregate::self_total_time_ns>},
    {"mean_time_ns", less_by<&ProfilerAggregate::mean_time_ns>},
    {"min_time_ns", less_by<&ProfilerAggregate::min_time_ns>},
    {"max_time_ns", less_by<&ProfilerAggregate::max_time_ns>},
}};

const SortField& sort_field(std::string_view name) {
  const auto found = std::ranges::find(sort_fields, name, &SortField::name);
  if (found != sort_fields.end()) return *found;
  raise<ValueError>("Profiler.table", "sort_by is no field of ProfilerAggregate: '", name,
                    "'; use name, carrier_type, input_shapes, count, total_time_ns, self_total_time_ns, "
                    "mean_time_ns, min_time_ns or max_time_ns");
}

using Row = std::vector<std::string>;

Row header_row(bool has_shapes) {
  Row row{"Name", "Carrier"};
  if (has_shapes) row.emplace_back("Input shapes");
  for (const char* title : {"Calls", "Total (ns)", "Self total (ns)", "Mean (ns)", "Min (ns)", "Max (ns)"})
    row.emplace_back(title);
  return row;
}

// One decimal: a mean of whole nanoseconds.
std::string mean_text(double mean) {
  const auto tenths = static_cast<std::int64_t>(std::llround(mean * 10.0));
  return text(tenths / 10, '.', tenths % 10);
}

Row row_of(const ProfilerAggregate& aggregate, bool has_shapes) {
  Row row{aggregate.name, std::string(aggregate.carrier_type.name())};
  if (has_shapes) row.push_back(shapes_text(aggregate.input_shapes));
  for (const std::int64_t number : {aggregate.count, aggregate.total_time_ns, aggregate.self_total_time_ns})
    row.push_back(text(number));
  row.push_back(mean_text(aggregate.mean_time_ns));
  for (const std::int64_t number : {aggregate.min_time_ns, aggregate.max_time_ns})
    row.push_back(text(number));
  return row;
}

// Texts to the left, numbers to the right; a rule under the header.
std::string aligned(const std::vector<Row>& rows, std::size_t text_columns) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    std::string rule;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string padding(widths[i] - rows[r][i].size(), ' ');
      const std::string_view gap = i == 0 ? "" : "  ";
      line += i < text_columns ? text(gap, rows[r][i], padding) : text(gap, padding, rows[r][i]);
      rule += text(gap, std::string(widths[i], '-'));
    }
    out += text(r == 0 ? "" : "\n", line);
    if (r == 0) out += text('\n', rule);
  }
  return out;
}

}  // namespace

std::string Profiler::table(const ProfilerTableOptions& options) const {
  const SortField& field = sort_field(options.sort_by);
  if (options.row_limit && *options.row_limit < 0)
    raise<ValueError>("Profiler.table", "row_limit must not be negative: ", *options.row_limit,
                      "; leave it out for all rows");
  std::vector<ProfilerAggregate> averages = key_averages({options.group_by_input_shape});
  // Stable, so that equal rows keep the ascending order of their keys.
  std::ranges::stable_sort(averages, [&](const ProfilerAggregate& a, const ProfilerAggregate& b) {
    return options.descending ? field.less(b, a) : field.less(a, b);
  });
  const auto limit =
      static_cast<std::size_t>(options.row_limit.value_or(static_cast<Index>(averages.size())));
  std::vector<Row> rows{header_row(options.group_by_input_shape)};
  for (std::size_t i = 0; i < std::min(limit, averages.size()); ++i)
    rows.push_back(row_of(averages[i], options.group_by_input_shape));
  return aligned(rows, options.group_by_input_shape ? 3 : 2);
}

}  // namespace orlop::inline v0
