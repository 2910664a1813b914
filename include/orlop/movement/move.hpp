// Moving a Tensor to another carrier: the operation, the registry of routes, `move` and `move_async`
// (S401-S420).
//
// Who owns the bytes: until the transfer is complete the source does; then the destination, and the source is
// released. While a move runs both carriers are owned by it, so nobody else can write or move them. A failed
// move leaves the source as it was, and the destination's version tells whether a slot of it may have
// changed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>

#include "orlop/movement/await.hpp"
#include "orlop/operation/operation.hpp"

namespace orlop::inline v0 {

class MoveOperation;

/// What the registry holds for a pair: how to make a fresh operation, and the class object it came from.
struct MoveRoute {
  std::string name;
  std::function<Ref<MoveOperation>()> make;
  /// The native class, or null for one written in Python.
  const std::type_info* native_class = nullptr;
  /// The Python class object that was registered, held by the binding; null for a native route.
  std::shared_ptr<void> python_class{};
};

/// One way to move between two carriers; open to authors, who implement `copy` (S416).
///
/// `forward(tensor, destination)` is the whole move, synchronously: checks, claims, transfer, validation,
/// release of the source.
class ORLOP_API MoveOperation : public Operation {
 public:
  MoveOperation() noexcept;
  ~MoveOperation() override;

  /// The exact classes this operation is for; null where it takes any.
  [[nodiscard]] virtual CarrierClass source_class() const { return {}; }
  [[nodiscard]] virtual CarrierClass destination_class() const { return {}; }
  /// The name in messages.
  [[nodiscard]] std::string implementation_name() const override { return "MoveOperation"; }
  /// The cotangent, moved back by the reverse route that was kept at the forward call (S419).
  Gradients backward(const Tensor& gradient) override;

  /// For a hierarchy that stages several transfers and commits them together: the transfer alone. The source
  /// stays, whatever happens. Checks as forward, and starts what can start; what comes back ends the
  /// transfer, once, on any thread. Both calls run inside the owner's scopes of both carriers.
  [[nodiscard]] virtual std::function<void()> start_transfer(const Tensor& tensor,
                                                             const Ref<Carrier>& destination);

  void visit_references(ReferenceVisitor& visitor) const override;

 protected:
  /// Makes the result from `copy`. Runs after all checks, inside both owner scopes, with no graph.
  virtual Tensor transfer(const Tensor& tensor, const Ref<Carrier>& destination);
  /// Copies `element_count` slots' worth of `tensor` onto `output`, which has its layout on `destination`
  /// from slot 0. Runs like `transfer`. Default: NotImplementedError.
  virtual void copy(const Tensor& tensor, Carrier& destination, const Tensor& output, Index element_count);
  /// For authors of `copy`: slots of the destination may change from here on, so that a failure advances its
  /// version.
  void expect_writes() noexcept { expects_writes_ = true; }
  /// Refuses a move that this route cannot make, with both carriers claimed; changes nothing. Default: it
  /// can.
  virtual void begin(const Tensor& tensor, const Ref<Carrier>& destination);
  /// Starts work that `transfer` only waits for, on the thread that asked for the move, inside both owner
  /// scopes. Default: all work is in `transfer`.
  virtual void submit(const Tensor& tensor, const Ref<Carrier>& destination);
  /// Makes an empty growable destination large enough.
  static void provide_room(const Tensor& tensor, Carrier& destination);
  /// What every move needs, whatever its route: rows 1 to 12 of S403.
  void check_move(const Tensor& tensor, const Ref<Carrier>& destination) const;

  Tensor forward_impl(std::span<const Argument> inputs) final;
  void on_release_autograd_state() noexcept override;

 private:
  friend class PublicMove;
  void prepare(const Tensor& tensor, const Ref<Carrier>& destination);
  void start(const Tensor& tensor, const Ref<Carrier>& destination);
  Tensor run(const Tensor& tensor, const Ref<Carrier>& destination);
  void undo(Carrier& destination) const noexcept;

  bool is_prepared_ = false;  // checked, and both carriers claimed, by whoever calls forward
  bool is_started_ = false;
  bool expects_writes_ = false;
  bool grows_ = false;
  std::int64_t source_version_ = 0;
  std::int64_t destination_version_ = 0;
  // What a gradient needs: the way back, made before the transfer, and whom to make storage like.
  Ref<MoveOperation> reverse_;
  Ref<Carrier> destination_;
};

/// Reads and normalizes all logical values, then writes them in ascending order; holes stay untouched. The
/// route of every unregistered pair.
class ORLOP_API ElementwiseMoveOperation : public MoveOperation {
 public:
  ~ElementwiseMoveOperation() override;
  [[nodiscard]] std::string implementation_name() const override { return "ElementwiseMoveOperation"; }

 protected:
  void copy(const Tensor& tensor, Carrier& destination, const Tensor& output, Index element_count) override;
};

/// Copies the physical span in bulk; the pinned classes say for which pair.
class ORLOP_API SpanMoveOperation : public MoveOperation {
 public:
  ~SpanMoveOperation() override;

 protected:
  void copy(const Tensor& tensor, Carrier& destination, const Tensor& output, Index element_count) override;
};

/// The route of a native operation class.
template <class T>
[[nodiscard]] MoveRoute move_route(std::string name) {
  return {std::move(name), [] { return Ref<MoveOperation>(make_ref<T>()); }, &typeid(T), {}};
}

/// Adds the route of an exact pair (S413). ValueError ‹already registered› where it has one, ‹protected
/// built-ins› for block-device pairs.
ORLOP_API void register_move_operation(CarrierClass source_class, CarrierClass destination_class,
                                       MoveRoute route);
/// Takes it away and returns it. KeyError ‹no move operation is registered›.
ORLOP_API MoveRoute unregister_move_operation(CarrierClass source_class, CarrierClass destination_class);
/// The route of the pair, or the elementwise one. RuntimeError ‹TransferRoute› for a class with a
/// CarrierDefinition, whose routes are in it.
[[nodiscard]] ORLOP_API MoveRoute dispatch_move(CarrierClass source_class, CarrierClass destination_class);
/// Whether exactly this pair has an entry, or its source a TransferRoute for it.
[[nodiscard]] ORLOP_API bool has_move_operation(CarrierClass source_class, CarrierClass destination_class);

/// Work that yields a Tensor.
class ORLOP_API TensorTask : public ResultTask<Tensor> {
 public:
  ~TensorTask() override;
  void visit_references(ReferenceVisitor& visitor) const override;
  void drop_references() noexcept override;
};

/// The work of one move.
class ORLOP_API MoveTask : public TensorTask {
 public:
  ~MoveTask() override;
};

/// The handle of a move: `wait()` gives the moved Tensor.
class ORLOP_API AwaitMove : public AwaitResult<Tensor> {
 public:
  explicit AwaitMove(Ref<MoveTask> task) noexcept : AwaitResult(std::move(task)) {}
  [[nodiscard]] Ref<MoveTask> move_task() const noexcept { return static_cast<MoveTask*>(task().get()); }
};

/// Moves `tensor` to `destination` and releases its carrier: the result has the same layout at offset 0.
/// Slots of the destination beyond the span keep their contents. The checks and their order are those of
/// S403. The whole move runs on the caller.
ORLOP_API Tensor move(const Tensor& tensor, const Ref<Carrier>& destination);
/// The same in the background. The checks are done on return and their errors thrown; what fails later is in
/// the handle. Until the move has ended both carriers are owned by it: they can be read, not written, moved
/// or released. In the scope of a carrier's owner, which belongs to its thread, the move runs before the
/// return.
ORLOP_API AwaitMove move_async(const Tensor& tensor, const Ref<Carrier>& destination);

namespace detail {
/// What a carrier class says about its routes, once, at load. `exact`: a hierarchy needs both registered
/// routes, the elementwise one is not enough. `built_in`: only the built-in routes run, nobody can add or
/// remove one (S415).
enum class RoutePolicy : std::uint8_t { open, exact, built_in };
ORLOP_API bool declare_route_policy(CarrierClass carrier_class, RoutePolicy policy);
[[nodiscard]] ORLOP_API RoutePolicy route_policy(CarrierClass carrier_class) noexcept;

/// Registers the shipped routes of a carrier; called once by each, at load.
ORLOP_API bool declare_move_route(CarrierClass source_class, CarrierClass destination_class, MoveRoute route);
/// The route that a move of this pair takes (S414), whether or not a CarrierDefinition says so.
/// NotImplementedError naming both classes where there is none.
[[nodiscard]] ORLOP_API MoveRoute find_move_route(CarrierClass source_class, CarrierClass destination_class);
/// Rows 1 to 4 of S403: what is wrong with the Tensor, before the destination is looked at.
ORLOP_API void check_move_source(const Tensor& tensor);
/// Row 5: TypeError ‹destination must be a Carrier instance›, naming the type that was given.
[[noreturn]] ORLOP_API void refuse_destination(std::string_view given);
/// Drops every route whose class is written in Python: the interpreter is about to end.
ORLOP_API void forget_python_routes() noexcept;
}  // namespace detail

}  // namespace orlop::inline v0
