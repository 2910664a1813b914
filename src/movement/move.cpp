// The move: checks, claims, transfer, validation, publication, in this order (S403, S406).
#include "orlop/movement/move.hpp"

#include <array>
#include <vector>

#include "operation/gradient.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/operation/grad_mode.hpp"
#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0 {

MoveOperation::MoveOperation() noexcept = default;
MoveOperation::~MoveOperation() = default;

void MoveOperation::copy(const Tensor&, Carrier&, const Tensor&, Index) {
  raise<NotImplementedError>(implementation_name(), "the class implements no _copy");
}

void MoveOperation::visit_references(ReferenceVisitor& visitor) const {
  Operation::visit_references(visitor);
  visitor.visit(destination_);
}

void MoveOperation::on_release_autograd_state() noexcept {
  reverse_.reset();
  destination_.reset();
}

namespace {

/// A carrier owned for the length of a move, with its scope open on this thread. An owner that moves its own tiers
/// (Evictable) holds the scope already.
class MoveClaim {
 public:
  explicit MoveClaim(Ref<Carrier> carrier) : carrier_(std::move(carrier)) {
    if (carrier_->is_owned() && carrier_->has_owner_access()) return;
    token_ = carrier_->claim_ownership();
    carrier_->begin_owner_access(token_);
  }
  MoveClaim(const MoveClaim&) = delete;
  MoveClaim& operator=(const MoveClaim&) = delete;
  ~MoveClaim() { give_up(); }

  void give_up() noexcept {
    if (token_ == 0) return;
    carrier_->end_owner_access(token_);
    carrier_->relinquish_ownership(token_);
    token_ = 0;
  }

 private:
  Ref<Carrier> carrier_;
  Carrier::OwnerToken token_ = 0;
};

void check_pins(const MoveOperation& operation, const Carrier& source, const Carrier& destination) {
  const auto check = [&](CarrierClass pinned, const Carrier& carrier, std::string_view role) {
    if (pinned && carrier.carrier_class() != pinned)
      raise<TypeError>(operation.implementation_name(), operation.implementation_name(), " requires a ", pinned, " ",
                       role, ": got ", carrier.carrier_class());
  };
  check(operation.source_class(), source, "source");
  check(operation.destination_class(), destination, "destination");
}

bool must_grow(const Carrier& destination, Index span) {
  return destination.size() == 0 && span > 0 && destination.is_growable();
}

/// Rows 1 to 9 of S403: what any move needs, whatever its route.
void check_participants(const Tensor& tensor, const Ref<Carrier>& destination) {
  tensor.require_single_subtensor("move");
  const Carrier& source = *tensor.carrier();
  if (source.is_released()) raise<RuntimeError>("move", "the tensor carrier is released; there is nothing to move");
  if (source.is_owned() && !source.has_owner_access())
    raise<RuntimeError>("move", "the source is owned by another carrier and cannot be moved directly; move its owner's "
                        "Tensor");
  if (!destination) raise<TypeError>("move", "destination must be a Carrier instance");
  if (destination.get() == &source) raise<ValueError>("move", "destination is the Tensor's own carrier");
  if (destination->is_released()) raise<RuntimeError>("move", "the destination carrier is released");
  if (!destination->is_mutable())
    raise<RuntimeError>("move", "the destination must be mutable: ",
                        destination->is_owned() ? "it is owned by another carrier" : "it was made with mutable=False");
  if (&destination->dtype() != &source.dtype())
    raise<TypeError>("move", "the destination dtype must match the source's ", source.dtype().name(), ": got ",
                     destination->dtype().name());
}

void check_room(const Tensor& tensor, const Carrier& destination) {
  const Index span = tensor.layout().cosize();
  if (destination.size() < span && !must_grow(destination, span))
    raise<ValueError>("move", "the destination is too small: the Tensor spans ", span, " slots, it has ",
                      destination.size());
}

}  // namespace

Tensor MoveOperation::forward_impl(std::span<const Argument> inputs) {
  const auto* target = inputs.size() == 2 ? inputs[1].get<Ref<Carrier>>() : nullptr;
  if (inputs.size() != 2 || inputs[0].tensor() == nullptr)
    raise<TypeError>(implementation_name(), "forward takes a Tensor and a destination; tensor must be a Tensor");
  const Tensor& tensor = *inputs[0].tensor();
  const Ref<Carrier> destination = target != nullptr ? *target : Ref<Carrier>();
  check_participants(tensor, destination);
  Carrier& source = *tensor.carrier();
  check_pins(*this, source, *destination);
  check_room(tensor, *destination);

  const MoveClaim source_claim(tensor.carrier());
  const MoveClaim destination_claim(destination);
  const Index span = tensor.layout().cosize();
  const std::int64_t source_version = source.version();
  const std::int64_t destination_version = destination->version();
  const bool grows = must_grow(*destination, span);
  try {
    if (grows) destination->allocate(span);
    const Tensor output = Tensor::trusted(destination, 0, tensor.layout());
    {
      const NoGrad no_grad;
      copy(tensor, *destination, output, span);
    }
    source.require_live();
    if (source.version() != source_version)
      raise<RuntimeError>(implementation_name(), "the source changed while it was moved; its owner must not write to it");
    destination->require_live();
    if (&destination->dtype() != &source.dtype() || destination->size() < span)
      raise<RuntimeError>(implementation_name(), "the destination changed its dtype or size while it was moved to");
    if (destination->version() == destination_version) destination->increment_version();
    return output;
  } catch (...) {
    if (!destination->is_released()) undo(*destination, grows, destination_version);
    throw;
  }
}

void MoveOperation::undo(Carrier& destination, bool has_grown, std::int64_t version) const {
  try {
    if (has_grown)
      destination.deallocate();
    else if (expects_writes_ && destination.version() == version)
      destination.increment_version();
  } catch (const Error&) {  // the first error is the one that counts
  }
}

void MoveOperation::after_forward(std::span<const Argument> inputs) {
  const Ref<Carrier>& source = inputs[0].tensor()->carrier();
  source->release();
}

Tensor move(const Tensor& tensor, const Ref<Carrier>& destination) {
  check_participants(tensor, destination);
  const Carrier& source = *tensor.carrier();
  const CarrierClass source_class = source.carrier_class();
  const CarrierClass destination_class = destination->carrier_class();
  const Ref<MoveOperation> operation = dispatch_move(source_class, destination_class).make();
  check_pins(*operation, source, *destination);
  check_room(tensor, *destination);
  if (is_grad_enabled() && tensor.is_differentiable())
  {
    operation->reverse_ = dispatch_move(destination_class, source_class);
    operation->destination_ = destination;
  }
  const std::array<Argument, 2> arguments{Argument(tensor), Argument::of(destination)};
  return operation->forward(arguments);
}

Gradients MoveOperation::backward(const Tensor& gradient) {
  if (inputs().size() != 1)
    raise<RuntimeError>(implementation_name(), "nothing was saved for backward: move with gradients enabled first");
  const Tensor& tensor = inputs().front();
  gradient.carrier()->require_live();
  if (!(gradient.layout().shape() == tensor.layout().shape()))
    raise<ValueError>(implementation_name(), "the cotangent must have the Tensor's shape ", tensor.layout().shape(),
                      ": got ", gradient.layout().shape());
  if (!gradient.layout().is_injective())
    raise<ValueError>(implementation_name(), "the cotangent must be injective: got ", gradient.layout());
  if (!reverse_)
    raise<RuntimeError>(implementation_name(), "no reverse route was kept at the forward call; move with orlop.move");
  const NoGrad no_grad;
  const Layout layout = gradient_layout(tensor.layout());
  const DType& dtype = gradient.carrier()->dtype();
  const Tensor staged = copy_to_layout(copy_to_carrier(gradient, *destination_), layout);
  Ref<Carrier> target = tensor.carrier()->allocate_like(layout.cosize(), {.dtype = dtype});
  const std::array<Argument, 2> arguments{Argument(staged), Argument::of(target)};
  Gradients gradients;
  gradients.emplace_back(execute_lowered_operation(*reverse_->make(), arguments));
  return gradients;
}

namespace {

/// The logical values of `tensor` in ordinal order.
std::vector<Scalar> logical_values(const Tensor& tensor) {
  const Carrier& source = *tensor.carrier();
  std::vector<Scalar> values;
  values.reserve(static_cast<std::size_t>(tensor.size()));
  for (Index ordinal = 0; ordinal < tensor.size(); ++ordinal) {
    const Scalar value = source.at(tensor.offset() + tensor.layout().index_ordinal(ordinal));
    values.push_back(normalize(source.dtype(), value));
  }
  return values;
}

}  // namespace

void ElementwiseMoveOperation::copy(const Tensor& tensor, Carrier& destination, const Tensor& output, Index) {
  const Carrier& source = *tensor.carrier();
  const Index bytes = source.dtype().slot_bytes();
  if (const std::byte* from = source.host_data(); from != nullptr && destination.host_data() != nullptr) {
    expect_writes();
    copy_strided(from + tensor.offset() * bytes, tensor.layout(), destination.host_data(), output.layout(), bytes);
    return;
  }
  const std::vector<Scalar> values = logical_values(tensor);
  expect_writes();
  // Shipped carriers count a move as one mutation, not one per slot.
  const bool is_shipped = destination.carrier_class().is_shipped();
  for (Index ordinal = 0; ordinal < tensor.size(); ++ordinal) {
    const Index slot = output.layout().index_ordinal(ordinal);
    const Scalar& value = values[static_cast<std::size_t>(ordinal)];
    if (is_shipped) {
      std::array<std::byte, 4> encoded{};
      encode_slot(destination.dtype(), value, encoded.data());
      destination.write_span(slot, 1, encoded.data());
    } else {
      destination.set_value(slot, value);
    }
  }
}

void SpanMoveOperation::copy(const Tensor& tensor, Carrier& destination, const Tensor&, Index element_count) {
  const Carrier& source = *tensor.carrier();
  expect_writes();
  if (std::byte* to = destination.host_data()) return source.read_span(tensor.offset(), element_count, to);
  if (const std::byte* from = source.host_data())
    return destination.write_span(0, element_count, from + tensor.offset() * source.dtype().slot_bytes());
  std::vector<std::byte> slots(slots_to_bytes(source.dtype(), element_count));
  source.read_span(tensor.offset(), element_count, slots.data());
  destination.write_span(0, element_count, slots.data());
}

}  // namespace orlop::inline v0
