// Reading and building nests: the one walk over profile tokens and leaves that the layout layer uses.
#pragma once

#include "orlop/layout/layout.hpp"

namespace orlop::inline v0::detail {

/// Reads the modes of a nest in preorder.
class NestCursor {
 public:
  explicit NestCursor(const Nest& nest) noexcept : nest_(&nest) {}

  [[nodiscard]] bool at_leaf() const noexcept {
    return nest_->profile.empty() || nest_->profile[token_] == leaf_token;
  }
  /// Reads a leaf.
  Index take_leaf() noexcept {
    ++token_;
    return nest_->leaves[leaf_++];
  }
  /// Enters a nested mode and returns how many modes it has.
  std::size_t open() noexcept { return static_cast<std::size_t>(nest_->profile[token_++]); }
  /// Passes so many top-level modes.
  void skip_modes(std::size_t count) noexcept {
    if (nest_->profile.empty())
      leaf_ += count;
    else
      for (; count > 0; --count) skip();
  }
  /// Passes one mode with all that it holds, and returns its leaves.
  std::span<const Index> skip() noexcept {
    const std::size_t first = leaf_;
    for (std::size_t pending = 1; pending > 0; --pending) {
      if (at_leaf())
        take_leaf();
      else
        pending += open();
    }
    return std::span<const Index>(nest_->leaves).subspan(first, leaf_ - first);
  }

 private:
  const Nest* nest_;
  std::size_t token_ = 0;
  std::size_t leaf_ = 0;
};

/// Builds a nest mode by mode.
class NestBuilder {
 public:
  void leaf(Index value) {
    count_child();
    nest_.leaves.push_back(value);
    if (nested_) nest_.profile.push_back(leaf_token);
  }
  /// Opens a nested mode; ValueError beyond max_nesting_depth.
  void push() {
    if (!nested_) nest_.profile.assign(nest_.leaves.size(), leaf_token);  // so far flat, without tokens
    nested_ = true;
    count_child();
    open_.push_back(nest_.profile.size());
    nest_.profile.push_back(0);
    nest_.depth = std::max(nest_.depth, open_.size() + 1);
    if (nest_.depth > max_nesting_depth) raise_nested_too_deeply();
  }
  void pop() { open_.resize(open_.size() - 1); }
  /// Copies the mode that `cursor` is at.
  void mode(NestCursor& cursor) {
    if (cursor.at_leaf()) {
      leaf(cursor.take_leaf());
      return;
    }
    push();
    for (std::size_t n = cursor.open(); n > 0; --n) mode(cursor);
    pop();
  }
  /// Copies a mode that a nested value spells.
  void mode(const Coordinate& value) {
    if (value.is_leaf()) {
      leaf(value.leaf());
      return;
    }
    push();
    for (const Coordinate& item : value.items()) mode(item);
    pop();
  }
  /// Copies all modes of a nest.
  void modes(const Nest& nest) {
    NestCursor cursor(nest);
    for (std::size_t i = 0; i < nest.rank; ++i) mode(cursor);
  }
  /// Adds a nest as one mode; one of at most one leaf is concatenated instead (M311).
  void append(const Nest& nest) {
    const bool is_int = nest.profile.empty() && nest.rank <= 1;
    if (!is_int) push();
    modes(nest);
    if (!is_int) pop();
  }
  [[nodiscard]] Nest finish() { return std::move(nest_); }

 private:
  void count_child() {
    if (open_.empty())
      ++nest_.rank;
    else
      ++nest_.profile[open_.back()];
  }

  Nest nest_;
  SmallVector<std::size_t, 8> open_;  // positions of the tokens of the modes being built
  bool nested_ = false;
};

/// Takes the mode that `cursor` is at as a nest of its own: a nested mode's children become the top modes.
[[nodiscard]] Nest take_mode(NestCursor& cursor);
/// Takes it as it is, as the one mode of a nest.
[[nodiscard]] Nest take_whole_mode(NestCursor& cursor);

/// Reads the top-level modes of a layout one after another; the layout outlives it.
class ModeReader {
 public:
  explicit ModeReader(const Layout& layout) noexcept
      : shape_(layout.shape().nest()), stride_(layout.stride().nest()), left_(layout.rank()) {}

  /// How many modes are yet to be read; nothing below may be called where there is none.
  [[nodiscard]] std::size_t left() const noexcept { return left_; }
  [[nodiscard]] bool at_leaf() const noexcept { return shape_.at_leaf(); }
  /// The next mode as Layout::mode gives it.
  Layout mode() {
    --left_;
    return Layout(Shape(take_mode(shape_)), Stride(take_mode(stride_)));
  }
  /// The next mode as Layout::select gives it.
  Layout whole_mode() {
    --left_;
    return Layout(Shape(take_whole_mode(shape_)), Stride(take_whole_mode(stride_)));
  }
  /// The extent and the stride of a mode that is a leaf.
  std::pair<Index, Index> leaf() noexcept {
    --left_;
    return {shape_.take_leaf(), stride_.take_leaf()};
  }
  void skip() noexcept {
    --left_;
    shape_.skip();
    stride_.skip();
  }
  /// Enters a mode that is no leaf and returns how many modes it has, which come next.
  std::size_t open() noexcept {
    stride_.open();
    const std::size_t modes = shape_.open();
    left_ += modes - 1;
    return modes;
  }
  /// Of the next mode.
  [[nodiscard]] Index size() const noexcept {
    Index size = 1;
    for (const Index extent : NestCursor(shape_).skip()) size *= extent;
    return size;
  }

 private:
  friend class LayoutBuilder;
  NestCursor shape_;
  NestCursor stride_;
  std::size_t left_;
};

/// Builds a layout: the two nests side by side.
class LayoutBuilder {
 public:
  void leaf(Index extent, Index stride) {
    shape_.leaf(extent);
    stride_.leaf(stride);
  }
  void push() {
    shape_.push();
    stride_.push();
  }
  void pop() {
    shape_.pop();
    stride_.pop();
  }
  void modes(const Layout& layout) {
    shape_.modes(layout.shape().nest());
    stride_.modes(layout.stride().nest());
  }
  /// Copies the next mode.
  void mode(ModeReader& reader) {
    --reader.left_;
    shape_.mode(reader.shape_);
    stride_.mode(reader.stride_);
  }
  /// Copies all modes that are left.
  void modes(ModeReader& reader) {
    while (reader.left() > 0) mode(reader);
  }
  void append(const Layout& layout) {
    shape_.append(layout.shape().nest());
    stride_.append(layout.stride().nest());
  }
  [[nodiscard]] Layout finish() { return Layout(Shape(shape_.finish()), Stride(stride_.finish())); }

 private:
  NestBuilder shape_;
  NestBuilder stride_;
};

/// Readers at the modes that the leaves of `tree` name, in order; the layout outlives them. ValueError where
/// the profiles differ.
[[nodiscard]] std::vector<ModeReader> extract_modes(const Layout& layout, const Tree& tree);

/// `nest` with other leaves, as many.
[[nodiscard]] inline Nest with_leaves(const Nest& nest, std::span<const Index> leaves) {
  Nest result;
  result.leaves.append(leaves);
  result.profile = nest.profile;
  result.rank = nest.rank;
  result.depth = nest.depth;
  return result;
}

/// Top-level mode `i` of `nest` as a nest of its own; IndexError.
[[nodiscard]] Nest mode_of(const Nest& nest, std::size_t i);
/// These top-level modes; IndexError.
[[nodiscard]] Nest select_modes(const Nest& nest, std::span<const std::size_t> modes);
/// The Leaf, Push, Pop list of a nest.
[[nodiscard]] std::vector<Node> recipe_of(const Nest& nest);
/// `(2, (3, 4))`
[[nodiscard]] std::string nest_text(const Nest& nest);
/// What a coordinate that does not fit the shape is, and what fits in the mode where it does not:
/// `(5, 0) in Shape<(2, 3)>; mode 0 goes from 0 to 1`.
[[nodiscard]] std::string misfit_text(const Shape& shape, const Coordinate& coordinate);
/// ValueError ‹inner codomain exceeds› where a composition's inner map reaches beyond the outer one.
void check_composable(Index inner_codomain, Index outer_size);
/// Mixes a value into a hash.
[[nodiscard]] inline std::size_t mix(std::size_t hash, std::size_t value) noexcept {
  return (hash ^ value) * 0x9E3779B97F4A7C15ULL + (hash >> 29);
}

}  // namespace orlop::inline v0::detail
