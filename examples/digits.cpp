// Handwritten digits in C++: the twin of digits.py. A perceptron trains while its parameters travel between
// RAM and files, each in an Evictable hierarchy of CPU over FileBacked; the same training on plain CPU gives
// the same losses.
//
//     digits build/digits.csv [epochs]

#include <orlop/orlop.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <random>
#include <sstream>

using namespace orlop;

namespace {

struct Digit {
  std::vector<Scalar> pixels;
  Index label;
};

std::vector<Digit> read_digits(const char* path) {
  std::vector<Digit> digits;
  std::ifstream file(path);
  for (std::string line, cell; std::getline(file, line);) {
    std::vector<Scalar> row;
    for (std::istringstream cells(line); std::getline(cells, cell, ',');)
      row.emplace_back(std::stof(cell) / 16.0F);
    const auto label = static_cast<Index>(row.back().to_binary32() * 16.0F);
    row.pop_back();
    digits.push_back({row, label});
  }
  return digits;
}

/// Rows of `width` values each as a Tensor whose first mode counts the rows.
Tensor matrix(const std::vector<Scalar>& values, Index width) {
  const Index rows = static_cast<Index>(values.size()) / width;
  // By ordinal the first mode is fastest; the values come row by row, so they are read through a permuted
  // view.
  const Tensor transposed = friendly::tensor(values, Layout::canonical(Shape{width, rows}));
  return permute(transposed, std::array<Index, 2>{1, 0});
}

Tensor place(const Tensor& tensor, bool spills) {
  if (!spills) return tensor;
  const Ref<Carrier> carrier = Evictable::make(tensor.carrier(), FileBacked::make(dtypes::Float32));
  return Tensor(carrier, tensor.offset(), tensor.layout());
}

struct Layer {
  Layer(Index inputs, Index outputs, std::mt19937& random, bool spills_) : spills(spills_) {
    const float bound = 1.0F / std::sqrt(static_cast<float>(inputs));
    std::vector<Scalar> draws;
    for (Index i = 0; i < inputs * outputs; ++i)
      draws.emplace_back(
          bound * (2.0F * static_cast<float>(random()) / static_cast<float>(std::mt19937::max()) - 1.0F));
    parameters = {place(friendly::tensor(draws, Layout::canonical(Shape{outputs, inputs})), spills),
                  place(friendly::zeros(std::array<Index, 2>{1, outputs}), spills)};
    travel(&Evictable::evict);
  }
  void travel(void (Evictable::*how)()) const {
    if (!spills) return;
    for (const Tensor& parameter : parameters) (dynamic_cast<Evictable&>(*parameter.carrier()).*how)();
  }
  /// Runs `work` while the layer is resident.
  template <class Work>
  auto resident(Work work) const {
    travel(&Evictable::promote);
    auto result = work();
    travel(&Evictable::evict);
    return result;
  }
  [[nodiscard]] Tensor operator()(const Tensor& x) const { return matmul(x, parameters[0]) + parameters[1]; }
  void step(float rate) const {
    const NoGrad no_grad;
    for (const Tensor& parameter : parameters) {
      const Tensor updated = parameter - gradient_of(parameter) * rate;
      parameter.carrier()->scatter(updated, parameter, parameter.layout());
      set_gradient(parameter, {});
    }
  }
  std::vector<Tensor> parameters;
  bool spills;
};

Tensor cross_entropy(const Tensor& logits, const Tensor& one_hot) {
  const Tensor shifted = logits - unsqueeze(reduce_max(logits, "row class -> row"), 1);
  const Tensor log_total = log(reduce_sum(exp(shifted), "row class -> row"));
  return friendly::mean(log_total - reduce_sum(shifted * one_hot, "row class -> row"));
}

/// Trains and returns the loss of each epoch; prints one line per epoch where the parameters spill to files.
std::vector<double> train(const std::vector<Digit>& digits, bool spills, int epochs) {
  constexpr std::size_t batch = 32;
  std::mt19937 random(0);
  const Layer first(64, 128, random, spills), second(128, 10, random, spills);
  std::vector<std::size_t> order(digits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<double> losses;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), random);
    double total = 0.0, right = 0.0;
    std::size_t batches = 0;
    for (std::size_t start = 0; start + batch <= order.size(); start += batch, ++batches) {
      std::vector<Scalar> pixels, one_hot;
      for (std::size_t i = start; i < start + batch; ++i) {
        const Digit& digit = digits[order[i]];
        pixels.insert(pixels.end(), digit.pixels.begin(), digit.pixels.end());
        for (Index d = 0; d < 10; ++d) one_hot.emplace_back(d == digit.label ? 1.0F : 0.0F);
      }
      const Tensor x = place(matrix(pixels, 64), spills), target = place(matrix(one_hot, 10), spills);
      const Tensor hidden = first.resident([&] { return relu(first(x)); });
      const Tensor joint(hidden.carrier(), hidden.offset(), hidden.layout());  // cuts the graph
      const Tensor logits = second.resident([&] {
        const Tensor output = second(joint);
        const Tensor loss = cross_entropy(output, target);
        backward(loss);
        second.step(0.5F);
        total += friendly::item(loss).to_binary64();
        return output;
      });
      first.resident([&] {
        backward(hidden, gradient_of(joint));
        first.step(0.5F);
        return 0;
      });
      const std::vector<Scalar> answers = friendly::to_list(argmax(logits, "row class -> row"));
      for (std::size_t i = 0; i < batch; ++i)
        right += answers[i].as_integer() == digits[order[start + i]].label;
    }
    losses.push_back(total / static_cast<double>(batches));
    if (spills)
      std::cout << "epoch " << std::setw(2) << epoch << "  loss " << std::fixed << std::setprecision(4)
                << losses.back() << "  accuracy " << right / static_cast<double>(batches * batch)
                << std::endl;
  }
  return losses;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return std::cerr << "usage: digits DATA [EPOCHS]\n", 2;
  const std::vector<Digit> digits = read_digits(arguments[1]);
  if (digits.empty())
    return std::cerr << "no digits in " << arguments[1] << "; ./dev demo digits fetches them\n", 2;
  const int epochs = count > 2 ? std::atoi(arguments[2]) : 10;
  const bool is_identical = train(digits, true, epochs) == train(digits, false, epochs);
  std::cout << "the same training on plain CPU: " << (is_identical ? "identical" : "DIFFERENT")
            << " losses\n";
  return is_identical ? 0 : 1;
}
