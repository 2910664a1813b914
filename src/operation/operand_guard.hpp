// Holds the operands of one call as they are while somebody else's kernel runs: what it may not change is
// compared, and put back after a failure (X30).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "orlop/operation/operation_definition.hpp"

namespace orlop::inline v0 {

/// The state of one operand carrier at the start of a call.
class OperandGuard {
 public:
  /// `compares_values`: the slots too; otherwise only the version.
  OperandGuard(Ref<Carrier> carrier, bool is_authorized, bool compares_values);
  OperandGuard(const OperandGuard&) = delete;
  OperandGuard& operator=(const OperandGuard&) = delete;
  ~OperandGuard();

  [[nodiscard]] const Carrier* carrier() const noexcept { return carrier_.get(); }
  /// What changed without being authorized, in one word; empty: nothing.
  [[nodiscard]] std::string_view unauthorized_change() const;
  /// An authorized carrier ends one version further; a release that was put off happens.
  void commit();
  /// Values, version, release and ownership as they were.
  void restore();

 private:
  [[nodiscard]] std::vector<std::byte> read_slots() const;
  [[nodiscard]] std::vector<Scalar> read_values() const;
  [[nodiscard]] bool has_native_slots() const;
  [[nodiscard]] bool has_changed_values() const;
  void restore_values();
  void let_go();

  Ref<Carrier> carrier_;
  bool is_authorized_;
  bool compares_values_;
  bool holds_ = false;
  std::int64_t version_ = 0;
  Carrier::OwnerToken owner_ = 0;
  std::uint64_t scope_thread_ = 0;
  std::uint32_t scope_depth_ = 0;
  Index size_ = 0;
  std::vector<std::byte> slots_;
  std::vector<Scalar> values_;  // of a dtype without native slots
};

/// All operand carriers of an invocation, each once.
class OperandEffects {
 public:
  OperandEffects(const ResolvedInvocation& invocation, bool compares_values);
  /// ProviderContractError ‹unauthorized operand›.
  void check() const;
  void commit();
  /// Every operand as it was. ProviderContractError where one does not let itself be put back.
  void restore();

 private:
  std::string_view name_;
  std::vector<std::unique_ptr<OperandGuard>> guards_;
};

}  // namespace orlop::inline v0
