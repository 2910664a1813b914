// Chrome traces: the JSON of complete events ("ph": "X") and of the metadata that names their tracks.
#include "orlop/interop/chrome_trace.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "interop/header_reader.hpp"
#include "orlop/io/user_file.hpp"

namespace orlop::inline v0 {

namespace {

/// One bar of the picture.
struct Bar {
  std::string name;
  std::int64_t start;
  std::int64_t duration;
  std::string arguments;  // members of a JSON object
};

std::string truth(bool value) { return value ? "true" : "false"; }

Bar bar_of(const ProfilerEvent& event) {
  std::string arguments = text("\"carrier\":", json_quoted(event.carrier_type.name()),
                               ",\"implementation\":", json_quoted(event.implementation_type.name()),
                               ",\"id\":", event.id, ",\"succeeded\":", truth(event.succeeded));
  if (event.parent_id) arguments += text(",\"parent\":", *event.parent_id);
  if (event.input_shapes) {
    std::string shapes;
    for (const std::optional<Shape>& shape : *event.input_shapes)
      shapes += text(shapes.empty() ? "" : ",", shape ? json_quoted(to_string(shape->top_level())) : "null");
    arguments += text(",\"shapes\":[", shapes, ']');
  }
  return {event.name, event.start_time_ns, event.duration_ns, std::move(arguments)};
}

Bar bar_of(const ResidencyTransition& transition) {
  return {transition.name, transition.start_time_ns, transition.duration_ns,
          text("\"carrier\":", json_quoted(transition.carrier_type.name()), ",\"bytes\":", transition.bytes,
               ",\"succeeded\":", truth(transition.succeeded))};
}

bool is_move(const ProfilerEvent& event) {
  return event.name == "move.submit" || event.name == "move.complete";
}

/// The trace as it grows.
class Trace {
 public:
  explicit Trace(std::int64_t origin) : origin_(origin) {}

  /// A track of bars that nest.
  void add_track(const std::string& name, const std::vector<Bar>& bars) {
    append(text("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":", ++tracks_,
                ",\"args\":{\"name\":", json_quoted(name), "}}"));
    append(text("{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":0,\"tid\":", tracks_,
                ",\"args\":{\"sort_index\":", tracks_, "}}"));
    for (const Bar& bar : bars)
      append(text("{\"ph\":\"X\",\"name\":", json_quoted(bar.name), ",\"pid\":0,\"tid\":", tracks_,
                  ",\"ts\":", microseconds(bar.start - origin_), ",\"dur\":", microseconds(bar.duration),
                  ",\"args\":{", bar.arguments, "}}"));
  }

  /// Tracks of bars in start order that may overlap: each bar on the first track that is free again.
  void add_tracks(const std::string& name, const std::vector<Bar>& bars) {
    struct Lane {
      std::int64_t end = std::numeric_limits<std::int64_t>::min();
      std::vector<Bar> bars{};
    };
    std::vector<Lane> lanes(1);
    for (const Bar& bar : bars) {
      auto lane = std::ranges::find_if(lanes, [&](const Lane& each) { return each.end <= bar.start; });
      if (lane == lanes.end()) lane = lanes.insert(lanes.end(), Lane{});
      lane->end = bar.start + bar.duration;
      lane->bars.push_back(bar);
    }
    for (std::size_t i = 0; i < lanes.size(); ++i)
      add_track(i == 0 ? name : text(name, ' ', i + 1), lanes[i].bars);
  }

  [[nodiscard]] std::string json() const {
    return text("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", events_, "\n]}\n");
  }

 private:
  void append(const std::string& event) { events_ += text(events_.empty() ? "" : ",\n", event); }

  static std::string microseconds(std::int64_t nanoseconds) {
    const std::string fraction = std::to_string(1000 + nanoseconds % 1000);
    return text(nanoseconds / 1000, '.', std::string_view(fraction).substr(1));
  }

  std::int64_t origin_;
  int tracks_ = 0;
  std::string events_;
};

}  // namespace

void export_chrome_trace(const Profiler& profiler, const std::filesystem::path& path) {
  std::vector<Bar> operations;
  std::vector<Bar> moves;
  std::vector<Bar> residency;
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (const ProfilerEvent& event : profiler.events()) {
    (is_move(event) ? moves : operations).push_back(bar_of(event));
    origin = std::min(origin, event.start_time_ns);
  }
  for (const ResidencyTransition& transition : profiler.transitions()) {
    residency.push_back(bar_of(transition));
    origin = std::min(origin, transition.start_time_ns);
  }
  Trace trace(origin);
  trace.add_track("operations", operations);
  trace.add_tracks("moves", moves);
  trace.add_tracks("residency", residency);
  const std::string json = trace.json();
  detail::OutputFile file("Profiler.export_chrome_trace", path.native(), static_cast<Index>(json.size()));
  file.write(std::as_bytes(std::span(json)), 0);
  file.commit();
}

}  // namespace orlop::inline v0
