// What lies under the windows of a convolution, as columns.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "operation/convolution.hpp"

namespace orlop::inline v0::convolution_parts {

/// Features-fastest values of one batch entry: position p of spatial mode i lies `(p - firsts[i]) * steps[i]`
/// further.
struct Image {
  const float* data;
  std::span<const Index> steps;
  std::span<const Index> firsts;
};

/// Columns one after the other.
struct ColumnCopies {
  float* out;
  void zeros(Index count) { out = std::fill_n(out, count, 0.0F); }
  void values(const float* from, Index count) {
    std::memcpy(out, from, static_cast<std::size_t>(count) * sizeof(float));
    out += count;
  }
};

/// Where the features under each tap of one column are.
class ColumnRows {
 public:
  ColumnRows(Index features, Index taps)
      : features_(features),
        zeros_(static_cast<std::size_t>(features)),
        rows_(static_cast<std::size_t>(taps)) {}
  void zeros(Index count) {
    for (; count > 0; count -= features_) add(zeros_.data());
  }
  void values(const float* from, Index count) {
    for (; count > 0; count -= features_, from += features_) add(from);
  }
  /// All of them so much further; holes stay holes.
  void advance(Index distance) {
    for (const float*& row : rows_)
      if (row != zeros_.data()) row += distance;
  }
  [[nodiscard]] const float* const* data() const { return rows_.data(); }

 private:
  void add(const float* row) {
    rows_[next_] = row;
    if (++next_ == rows_.size()) next_ = 0;
  }
  Index features_;
  std::vector<float> zeros_;
  std::vector<const float*> rows_;
  std::size_t next_ = 0;
};

/// The windows over one image: what lies under each as a column, in features fastest, then taps.
class Windows {
 public:
  Windows(std::vector<Window> windows, Index features) : windows_(std::move(windows)), features_(features) {
    for (std::size_t mode = 0; mode < windows_.size(); ++mode)
      if (windows_[mode].positions > 1 || windows_[mode].taps > 1) moving_.push_back(mode);
  }

  [[nodiscard]] std::span<const Window> modes() const { return windows_; }
  [[nodiscard]] Index taps() const {
    Index taps = 1;
    for (const Window& window : windows_) taps *= window.taps;
    return taps;
  }
  [[nodiscard]] Index column_size() const { return features_ * taps(); }

  /// Writes the columns of the positions `first` … `first + count - 1`.
  void fill(const Image& image, Index first, Index count, float* columns) const {
    ColumnCopies copies{columns};
    for_each_column(image, first, count, copies, [](Index) {});
  }
  /// Gives each of these columns to `target`, then calls `body(column)`.
  template <class Target, class Body>
  void for_each_column(const Image& image, Index first, Index count, Target& target, Body body) const {
    const Columns columns(*this, image);
    std::vector<Index> at(moving_.size());
    for (std::size_t i = 0; i < at.size(); ++i) {
      const Index positions = windows_[moving_[i]].positions;
      at[i] = first % positions;
      first /= positions;
    }
    for (Index column = 0; column < count; ++column) {
      columns.write(at, column > 0, target);
      body(column);
      for (std::size_t i = 0; i < at.size() && ++at[i] == windows_[moving_[i]].positions; ++i) at[i] = 0;
    }
  }

 private:
  /// The columns over one image.
  class Columns {
   public:
    Columns(const Windows& windows, const Image& image) : data_(image.data), features_(windows.features_) {
      Index size = features_;
      for (std::size_t mode = 0, next = 0; mode < windows.windows_.size(); ++mode) {
        const Window& window = windows.windows_[mode];
        if (next < windows.moving_.size() && windows.moving_[next] == mode) {
          modes_.push_back({window, image.steps[mode], image.firsts[mode], size});
          size *= window.taps;
          ++next;
        } else if (window(0, 0) == Window::hole) {
          is_hole_ = true;
        } else {
          data_ += (window(0, 0) - image.firsts[mode]) * image.steps[mode];
        }
      }
      size_ = size;
    }
    /// `has_previous`: the last column that the target got is the one before.
    template <class Target>
    void write(std::span<const Index> at, bool has_previous, Target& target) const {
      if (is_hole_) return target.zeros(size_);
      if constexpr (requires { target.advance(Index{}); })
        if (const Index distance = has_previous ? distance_from_previous(at) : 0; distance != 0)
          return target.advance(distance);
      write(data_, at, target);
    }

   private:
    struct Mode {
      Window window;
      Index step, first;
      Index size;  // of what lies under one tap
    };
    /// How much further everything lies than in the column before; 0 where that differs from tap to tap.
    [[nodiscard]] Index distance_from_previous(std::span<const Index> at) const {
      if (at.empty() || at[0] == 0) return 0;
      const Mode& mode = modes_.front();
      const Window& window = mode.window;
      const Index start = at[0] * window.step + window.origin;
      const bool is_inside = window.divisor == 1 && start >= window.step &&
                             start + (window.taps - 1) * window.tap_step < window.source;
      return is_inside ? window.step * mode.step : 0;
    }
    /// What lies under all taps of the modes that `at` speaks of.
    template <class Target>
    void write(const float* from, std::span<const Index> at, Target& target) const {
      if (at.empty()) return target.values(from, features_);
      const Mode& mode = modes_[at.size() - 1];
      const Window& window = mode.window;
      if (at.size() == 1 && window.divisor == 1 && window.tap_step == 1 && mode.step == features_)
        return write_neighbours(from, at[0] * window.step + window.origin, mode, target);
      for (Index tap = 0; tap < window.taps; ++tap) {
        const Index source = window(at.back(), tap);
        if (source == Window::hole)
          target.zeros(mode.size);
        else
          write(from + (source - mode.first) * mode.step, at.first(at.size() - 1), target);
      }
    }
    /// The taps lie over neighbouring positions from `start` on.
    template <class Target>
    void write_neighbours(const float* from, Index start, const Mode& mode, Target& target) const {
      const Index before = std::clamp(-start, Index{0}, mode.window.taps);
      const Index after = std::clamp(mode.window.source - start, before, mode.window.taps);
      target.zeros(before * features_);
      if (before < after)
        target.values(from + (start + before - mode.first) * features_, (after - before) * features_);
      target.zeros((mode.window.taps - after) * features_);
    }

    const float* data_;
    Index features_;
    Index size_ = 0;
    bool is_hole_ = false;
    std::vector<Mode> modes_;
  };

  std::vector<Window> windows_;
  std::vector<std::size_t> moving_;  // modes with more than one position or tap
  Index features_;
};

}  // namespace orlop::inline v0::convolution_parts
