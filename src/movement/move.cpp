// The move: checks, claims, transfer, validation, publication, in this order (S403, S406).
#include "orlop/movement/move.hpp"

#include <array>
#include <functional>
#include <optional>

#include "operation/gradient.hpp"
#include "orlop/operation/grad_mode.hpp"
#include "orlop/operation/profiler.hpp"
#include "storage/fresh_storage.hpp"

namespace orlop::inline v0 {

MoveOperation::MoveOperation() noexcept = default;
MoveOperation::~MoveOperation() = default;
ElementwiseMoveOperation::~ElementwiseMoveOperation() = default;
SpanMoveOperation::~SpanMoveOperation() = default;
TensorTask::~TensorTask() = default;
MoveTask::~MoveTask() = default;

void TensorTask::visit_references(ReferenceVisitor& visitor) const {
  if (is_done() && result()) visitor.visit(result().ref());  // until then the worker's references are its own
}

void TensorTask::drop_references() noexcept {
  ResultTask::drop_references();
  if (is_done()) clear_result();
}

void MoveOperation::visit_references(ReferenceVisitor& visitor) const {
  Operation::visit_references(visitor);
  visitor.visit(reverse_);
  visitor.visit(destination_);
}

void MoveOperation::on_release_autograd_state() noexcept {
  reverse_.reset();
  destination_.reset();
}

namespace {

/// A carrier owned for the length of a move. An owner that moves its own tiers (Evictable) holds its scope
/// already.
class MoveClaim {
 public:
  explicit MoveClaim(Ref<Carrier> carrier) : carrier_(std::move(carrier)) {
    if (!rests_on_scope()) token_ = carrier_->claim_ownership();
  }
  MoveClaim(const MoveClaim&) = delete;
  MoveClaim& operator=(const MoveClaim&) = delete;
  ~MoveClaim() {
    if (token_ != 0) carrier_->relinquish_ownership(token_);
  }

  /// Opens the owner's scope on this thread.
  [[nodiscard]] std::optional<OwnerAccess> open() const {
    if (token_ == 0) return {};
    return std::optional<OwnerAccess>(std::in_place, *carrier_, token_);
  }
  /// Whether the scope of an owner above is used, which belongs to this thread.
  [[nodiscard]] bool rests_on_scope() const { return carrier_->is_owned() && carrier_->has_owner_access(); }
  void forget() noexcept {
    if (token_ != 0) carrier_->forget_owner();
    token_ = 0;
  }

 private:
  Ref<Carrier> carrier_;
  Carrier::OwnerToken token_ = 0;
};

void check_pins(const MoveOperation& operation, const Carrier& source, const Carrier& destination) {
  const auto check = [&](CarrierClass pinned, const Carrier& carrier, std::string_view role) {
    if (pinned && carrier.carrier_class() != pinned)
      raise<TypeError>(operation.implementation_name(), operation.implementation_name(), " requires a ",
                       pinned, " ", role, ": got ", carrier.carrier_class());
  };
  check(operation.source_class(), source, "source");
  check(operation.destination_class(), destination, "destination");
}

/// S414, S415: a pair whose routes are built in, or fixed in a CarrierDefinition, runs through exactly its
/// entry.
void check_policy(const MoveOperation& operation, CarrierClass source, CarrierClass destination) {
  const auto is_fixed = [](CarrierClass carrier_class) {
    return detail::route_policy(carrier_class) == detail::RoutePolicy::built_in || carrier_class.is_defined();
  };
  if (!is_fixed(source) && !is_fixed(destination)) return;
  const MoveRoute route = detail::find_move_route(source, destination);
  if (route.native_class == nullptr || *route.native_class != typeid(operation))
    raise<NotImplementedError>(operation.implementation_name(), "the pair (", source, ", ", destination,
                               ") runs only through the exact ",
                               source.is_defined() || destination.is_defined() ? "" : "built-in ",
                               route.name);
}

/// Where the result of an author's transfer is, for messages.
std::string where(const Tensor& result) {
  return result ? text("one on another ", result.carrier_type()) : std::string("none");
}

bool must_grow(const Carrier& destination, Index span) {
  return destination.size() == 0 && span > 0 && destination.is_growable();
}

/// Rows 1 to 9 of S403: what any move needs, whatever its route.
void check_participants(const Tensor& tensor, const Ref<Carrier>& destination) {
  detail::check_move_source(tensor);
  const Carrier& source = *tensor.carrier();
  if (!destination) detail::refuse_destination("none");
  const CarrierClass target = destination->carrier_class();
  if (destination.get() == &source)
    raise<ValueError>("move", "destination is the Tensor's own carrier: got its ", target,
                      "; give another live carrier");
  if (destination->is_released())
    raise<RuntimeError>("move", "the destination carrier is released: got a released ", target,
                        "; give a live one");
  if (!destination->is_mutable())
    raise<RuntimeError>("move", "the destination must be mutable: ",
                        destination->is_owned()
                            ? "it is owned by another carrier; move to its owner or to a carrier of its own"
                            : "it was made with mutable=False; make it with mutable=True");
  if (&destination->dtype() != &source.dtype())
    raise<TypeError>("move", "the destination dtype must match the source's ", source.dtype().name(),
                     ": got ", destination->dtype().name(), "; give a carrier of that dtype");
}

void check_room(const Tensor& tensor, const Carrier& destination) {
  const Index span = tensor.layout().cosize();
  if (destination.size() < span && !must_grow(destination, span))
    raise<ValueError>("move", "the destination is too small: the Tensor spans ", span, " slots, it has ",
                      destination.size(), "; give one with at least as many, or an empty one that can grow");
}

}  // namespace

void detail::check_move_source(const Tensor& tensor) {
  if (!tensor) raise<TypeError>("move", "tensor must be a Tensor: got none; give the Tensor to move");
  tensor.require_single_subtensor("move");
  const Carrier& source = *tensor.carrier();
  if (source.is_released())
    raise<RuntimeError>("move", "the tensor carrier is released: its ", source.carrier_class(),
                        " has no storage any more; there is nothing to move");
  if (source.is_owned() && !source.has_owner_access())
    raise<RuntimeError>("move",
                        "the source is owned by another carrier and cannot be moved directly: got an owned ",
                        source.carrier_class(), "; move its owner's Tensor");
}

void detail::refuse_destination(std::string_view given) {
  raise<TypeError>("move", "destination must be a Carrier instance: got ", given,
                   "; give a carrier with room for the values, such as CPU(size)");
}

void MoveOperation::check_move(const Tensor& tensor, const Ref<Carrier>& destination) const {
  check_participants(tensor, destination);
  check_pins(*this, *tensor.carrier(), *destination);
  check_policy(*this, tensor.carrier_type(), destination->carrier_class());
  check_room(tensor, *destination);
}

void MoveOperation::begin(const Tensor&, const Ref<Carrier>&) {}
void MoveOperation::submit(const Tensor&, const Ref<Carrier>&) {}

void MoveOperation::provide_room(const Tensor& tensor, Carrier& destination) {
  const Index span = tensor.layout().cosize();
  if (must_grow(destination, span)) destination.allocate(span);
  check_room(tensor, destination);  // an author's growth is believed only when it is there
}

Tensor MoveOperation::transfer(const Tensor& tensor, const Ref<Carrier>& destination) {
  provide_room(tensor, *destination);
  const Tensor output = Tensor::trusted(destination, 0, tensor.layout());
  copy(tensor, *destination, output, tensor.layout().cosize());
  return output;
}

void MoveOperation::copy(const Tensor&, Carrier&, const Tensor&, Index) {
  raise<NotImplementedError>(implementation_name(),
                             "the class implements no _copy, the hook that moves the values; override it");
}

Tensor MoveOperation::forward_impl(std::span<const Argument> inputs) {
  const Tensor* given = inputs.empty() ? nullptr : inputs[0].tensor();
  if (given == nullptr)
    raise<TypeError>(implementation_name(), "tensor must be a Tensor: got ",
                     inputs.empty() ? "none" : inputs[0].type_name(),
                     "; forward takes a Tensor and a destination");
  if (inputs.size() > 2)
    raise<TypeError>(implementation_name(), "forward takes a Tensor and a destination: got ", inputs.size(),
                     " arguments");
  const Tensor& tensor = *given;
  const auto* target = inputs.size() == 2 ? inputs[1].get<Ref<Carrier>>() : nullptr;
  if (target == nullptr) {
    detail::check_move_source(tensor);
    detail::refuse_destination(inputs.size() == 2 ? inputs[1].type_name() : "none");
  }
  const Ref<Carrier> destination = *target;
  if (std::exchange(is_prepared_, false)) return run(tensor, destination);
  check_move(tensor, destination);
  const MoveClaim source_claim(tensor.carrier());
  const MoveClaim destination_claim(destination);
  prepare(tensor, destination);
  const auto source_scope = source_claim.open();
  const auto destination_scope = destination_claim.open();
  return run(tensor, destination);
}

/// Rows 13 and 14 of S403: what is refused with both carriers claimed.
void MoveOperation::prepare(const Tensor& tensor, const Ref<Carrier>& destination) {
  begin(tensor, destination);
  if (!is_grad_enabled() || !tensor.is_differentiable()) return;
  try {
    reverse_ = detail::find_move_route(destination->carrier_class(), tensor.carrier_type()).make();
  } catch (const NotImplementedError& error) {
    raise<NotImplementedError>("move", "gradients are recorded and could not come back: ", error.what(),
                               "; move under no_grad() where none are needed");
  }
  destination_ = destination;
}

/// Captures what the move must leave as it is, and starts what can be started.
void MoveOperation::start(const Tensor& tensor, const Ref<Carrier>& destination) {
  source_version_ = tensor.carrier()->version();
  destination_version_ = destination->version();
  grows_ = must_grow(*destination, tensor.layout().cosize());
  expects_writes_ = false;
  const NoGrad no_grad;
  try {
    submit(tensor, destination);
  } catch (...) {
    undo(*destination);
    throw;
  }
  is_started_ = true;
}

/// The transfer with both carriers claimed: validated, published, and the source released (S406).
Tensor MoveOperation::run(const Tensor& tensor, const Ref<Carrier>& destination) {
  if (!std::exchange(is_started_, false)) {
    start(tensor, destination);
    is_started_ = false;
  }
  Carrier& source = *tensor.carrier();
  const NoGrad no_grad;
  try {
    const Tensor result = transfer(tensor, destination);
    expects_writes_ = true;  // the values are there, whatever fails now
    if (!result || result.carrier() != destination)
      raise<RuntimeError>(implementation_name(), "the result must live on the destination: got ",
                          where(result), "; the move is not made");
    source.require_live();
    if (source.version() != source_version_)
      raise<RuntimeError>(implementation_name(), "the source changed while it was moved: version ",
                          source.version(), ", not ", source_version_, "; its owner must not write to it");
    destination->require_live();
    if (&destination->dtype() != &source.dtype() || destination->size() < tensor.layout().cosize())
      raise<RuntimeError>(
          implementation_name(),
          "the destination changed its dtype or size while it was moved to: ", destination->dtype().name(),
          ", ", destination->size(), " slots, for ", source.dtype().name(), ", ", tensor.layout().cosize(),
          " slots; leave it alone until the move has ended");
    source.release();
    if (destination->version() == destination_version_) destination->increment_version();
    return result;
  } catch (...) {
    undo(*destination);
    throw;
  }
}

std::function<void()> MoveOperation::start_transfer(const Tensor& tensor, const Ref<Carrier>& destination) {
  check_move(tensor, destination);
  begin(tensor, destination);
  start(tensor, destination);
  return [operation = Ref<MoveOperation>(this), tensor, destination] {
    const NoGrad no_grad;
    const Tensor result = operation->transfer(tensor, destination);
    if (!result || result.carrier() != destination)
      raise<RuntimeError>(operation->implementation_name(), "the result must live on the destination: got ",
                          where(result), "; return a Tensor on the given carrier");
  };
}

void MoveOperation::undo(Carrier& destination) const noexcept {
  try {
    if (destination.is_released()) return;
    if (grows_) destination.deallocate();
    if (destination.size() != 0 && expects_writes_ && destination.version() == destination_version_)
      destination.increment_version();
  } catch (...) {  // the first error is the one that counts
  }
}

/// A move that a user asked for: checked and claimed when it is made, run on any thread.
class PublicMove final : public MoveTask {
 public:
  PublicMove(const Tensor& tensor, const Ref<Carrier>& destination)
      : tensor_(tensor), destination_(destination) {
    check_participants(tensor, destination);
    operation_ = detail::find_move_route(tensor.carrier_type(), destination->carrier_class()).make();
    operation_->check_move(tensor, destination);
    source_claim_.emplace(tensor.carrier());
    destination_claim_.emplace(destination);
    operation_->prepare(tensor, destination);
    operation_->is_prepared_ = true;
  }

  /// Runs the move, here or on `pool`.
  void start(Executor* pool) {
    detail::DetachedSpan submit({}, [this] { return describe("move.submit"); }, [this] { return shapes(); });
    complete_.emplace(submit.id(), [this] { return describe("move.complete"); }, [this] { return shapes(); });
    if (pool == nullptr || source_claim_->rests_on_scope() || destination_claim_->rests_on_scope()) {
      submit.close(true);
      return run();
    }
    try {
      {
        const auto source_scope = source_claim_->open();
        const auto destination_scope = destination_claim_->open();
        operation_->start(tensor_, destination_);
      }
      pool->submit(Ref<Task>(this));
    } catch (...) {
      complete_->discard();
      throw;
    }
    submit.close(true);
  }

 protected:
  void perform() override {
    try {
      set_result(transfer());
    } catch (...) {
      finish(false);
      throw;
    }
    finish(true);
  }
  void abandon() noexcept override { finish(false); }
  void forget() noexcept override {
    source_claim_->forget();
    destination_claim_->forget();
  }

 private:
  [[nodiscard]] Tensor transfer() const {
    const auto source_scope = source_claim_->open();
    const auto destination_scope = destination_claim_->open();
    const GradMode grad_mode(
        static_cast<bool>(operation_->reverse_));  // as it was when the move was asked for
    const std::array<Argument, 2> arguments{Argument(tensor_), Argument::of(destination_)};
    return operation_->forward(arguments);
  }
  /// The carriers are free before anyone can see that the move has ended.
  void finish(bool succeeded) noexcept {
    destination_claim_.reset();
    source_claim_.reset();
    complete_->close(succeeded);
    operation_.reset();
    destination_.reset();
    tensor_ = Tensor();
  }
  [[nodiscard]] detail::ProfiledCall describe(std::string name) const {
    return {std::move(name), tensor_.carrier_type(),
            ImplementationType(*operation_, operation_->implementation_name())};
  }
  [[nodiscard]] InputShapes shapes() const { return {tensor_.layout().shape()}; }

  Tensor tensor_;
  Ref<Carrier> destination_;
  Ref<MoveOperation> operation_;
  std::optional<MoveClaim> source_claim_;
  std::optional<MoveClaim> destination_claim_;
  std::optional<detail::DetachedSpan> complete_;
};

Tensor move(const Tensor& tensor, const Ref<Carrier>& destination) {
  const Ref<PublicMove> task = make_ref<PublicMove>(tensor, destination);
  task->start(nullptr);
  task->wait();
  return task->result();
}

AwaitMove move_async(const Tensor& tensor, const Ref<Carrier>& destination) {
  constexpr int thread_limit = 4;
  static Executor& pool = Executor::make(thread_limit);
  Ref<PublicMove> task = make_ref<PublicMove>(tensor, destination);
  task->start(&pool);
  return AwaitMove(std::move(task));
}

Gradients MoveOperation::backward(const Tensor& gradient) {
  const std::string name = implementation_name();
  if (!gradient) raise<TypeError>(name, "gradient must be a Tensor: got none; give the result's cotangent");
  gradient.carrier()->require_live();
  if (inputs().size() != 1)
    raise<RuntimeError>(name, "nothing was saved for backward: move with gradients enabled first");
  const Tensor tensor = inputs().front();
  if (!(gradient.layout().shape() == tensor.layout().shape()))
    raise<ValueError>(name, "the cotangent must have the Tensor's shape ", tensor.layout().shape(), ": got ",
                      gradient.layout().shape());
  if (!gradient.layout().is_injective())
    raise<ValueError>(name, "the cotangent's layout must be injective: got ", gradient.layout(),
                      "; copy it into a layout whose elements share no slot");
  if (&gradient.dtype() != &tensor.dtype())
    raise<TypeError>(name, "the cotangent must have the Tensor's dtype ", tensor.dtype().name(), ": got ",
                     gradient.dtype().name());
  if (!reverse_)
    raise<RuntimeError>(name, "no reverse route was kept at the forward call; move with gradients enabled");
  const NoGrad no_grad;
  const Layout layout = gradient_layout(tensor.layout());
  Tensor staged = copy_to_carrier(gradient, *destination_);
  if (!(staged.layout() == layout)) staged = copy_to_layout(staged, layout);
  const Ref<Carrier> target =
      fresh_storage(*tensor.carrier(), layout.cosize(), {.dtype = tensor.carrier()->dtype()});
  const std::array<Argument, 2> arguments{Argument(staged), Argument::of(target)};
  Gradients gradients;
  gradients.emplace_back(execute_lowered_operation(*reverse_, arguments));
  return gradients;
}

}  // namespace orlop::inline v0
