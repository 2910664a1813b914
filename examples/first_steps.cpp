// First steps in C++: make tensors, print and slice them, compute, ask for gradients, move, save and load,
// fit a line. docs/cpp.md shows this program and what it prints.
#include <orlop/orlop.hpp>

#include <cmath>
#include <filesystem>
#include <iostream>

using namespace orlop;

int main() {
  // From values, from extents, and from a vector whose values lie row by row.
  const Tensor x = friendly::tensor({{1, 2, 3}, {4, 5, 6}});
  const Tensor bias = friendly::full({1, 2}, -1);
  const std::vector<float> numbers{6, 5, 4, 3, 2, 1};
  const Tensor w(friendly::tensor(numbers).carrier(), 0, friendly::row_major({2, 3}));
  std::cout << x << "\n" << x.at({1, 2}) << ", " << x.slice({0, {}}) << "\n";

  // Operators and functions; matmul contracts the second modes of both.
  const Tensor y = relu(matmul(x, w) * 0.5 + bias);
  const std::vector<float> values = friendly::to_list<float>(y);  // first mode fastest
  std::cout << values[0] << " " << values[1] << ", mean " << friendly::item<double>(friendly::mean(y))
            << "\n";

  // Gradients of everything that went in.
  backward(friendly::sum(y));
  std::cout << gradient_of(w) << "\n";

  // To a file carrier and back, and through a file that NumPy reads.
  const Tensor stored = move(y, FileBacked::make(dtypes::Float32));
  const auto path = std::filesystem::temp_directory_path() / "orlop_first_steps.npy";
  save_npy(path, stored);
  std::cout << stored << "\n" << load_npy(path).at({1, 1}) << "\n";
  std::filesystem::remove(path);

  // A line through points.
  std::mt19937 random(0);
  const Tensor points = friendly::rand({100, 1}, random);
  const Tensor heights = [&] {
    const NoGrad no_grad;  // what is computed here is not recorded
    return points * 3 - 1;
  }();
  Tensor slope = friendly::zeros({1, 1}), start = friendly::zeros({1, 1});
  for (int step = 0; step < 200; ++step) {
    const Tensor error = points * slope + start - heights;
    backward(friendly::mean(error * error));
    const NoGrad no_grad;
    slope = slope - gradient_of(slope) * 0.5;
    start = start - gradient_of(start) * 0.5;
  }
  std::cout << std::round(friendly::item<float>(slope) * 100) / 100 << " "
            << std::round(friendly::item<float>(start) * 100) / 100 << "\n";

  // Whatever goes wrong is an exception that says what to do.
  try {
    static_cast<void>(x + friendly::ones({3}));
  } catch (const ValueError& error) {  // an orlop::Error, a std::runtime_error
    std::cout << error.what() << "\n";
  }
}
