// Node and Tree: how a rearrangement names, groups and inserts modes (M310).
#pragma once

#include "orlop/layout/shape.hpp"

namespace orlop::inline v0 {

/// One step of a nest written flat, or one entry of a Tree: `Node::Leaf`, `Node::Push`, `Node::Pop`, or an
/// identified leaf `Node::id(n)`.
class ORLOP_API Node {
 public:
  static const Node Leaf;
  static const Node Push;
  static const Node Pop;
  constexpr Node() noexcept = default;
  /// The leaf that places source `n`. ValueError where n < 0.
  [[nodiscard]] static Node id(Index n);

  /// A leaf, identified or not.
  [[nodiscard]] bool is_leaf() const noexcept { return value_ >= unnamed; }
  /// The identified leaf's number, or -1.
  [[nodiscard]] Index id() const noexcept { return value_ < 0 ? -1 : value_; }
  friend bool operator==(Node, Node) noexcept = default;

 private:
  static constexpr Index unnamed = -1;
  constexpr explicit Node(Index value) noexcept : value_(value) {}
  Index value_ = unnamed;  // an id, or -1 leaf, -2 push, -3 pop
};

/// A nest of leaves, some of them identified. `Tree{Node::id(1), {Node::Leaf, Node::id(0)}}`.
class ORLOP_API Tree : public detail::NestValue {
 public:
  Tree();
  /// The items. ValueError where one is Push or Pop, or the nest too deep.
  Tree(std::initializer_list<Nested<Node>> items);
  explicit Tree(const Nested<Node>& items);
  /// Internal: the leaves are ids, or -1.
  explicit Tree(detail::Nest nest);

  /// Leaves.
  [[nodiscard]] std::size_t size() const noexcept { return nest_->leaves.size(); }
  /// The tree as Leaf, Push and Pop.
  [[nodiscard]] std::vector<Node> recipe() const;
  /// Nests a flat list, one item per leaf. ValueError for another number of items.
  [[nodiscard]] Coordinate reshape(Sequence<Index> items) const;
  friend bool operator==(const Tree& a, const Tree& b) noexcept { return a.equal(b); }
};

}  // namespace orlop::inline v0
