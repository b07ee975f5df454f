#include "tests/support/fake_processes.h"

#include "core/base/error.h"
#include "core/base/text.h"

namespace unity::test {

class FakeNetwork::Endpoint final : public Transport {
 public:
  Endpoint(FakeNetwork& network, int rank)
      : network_(network), rank_(rank), end_(network.ends_[static_cast<std::size_t>(rank)]) {}
  ~Endpoint() override { finish({}); }

  int rank() const override { return rank_; }
  int size() const override { return network_.size(); }
  int local_rank() const override { return rank_; }
  int local_size() const override { return network_.size(); }
  int node() const override { return end_.node; }
  std::string version() const override { return end_.version; }

  void start(ByteStore& store, Receiver receiver) override {
    thread_ = std::thread([this, &store, receiver = std::move(receiver)] { carry(store, receiver); });
  }
  void post(int to, Block message) override {
    {
      std::lock_guard lock(end_.mutex);
      if (!end_.failure.empty()) throw std::runtime_error(end_.failure);
      if (end_.silent) return;
    }
    network_.at(to, [&](End& e) { e.queue.emplace_back(rank_, std::move(message)); });
  }
  // Tests see to it that nobody waits for one who has left.
  bool finish(std::chrono::milliseconds) override {
    network_.at(rank_, [](End& e) { e.leaving = true; });
    if (thread_.joinable()) thread_.join();
    return true;
  }
  [[noreturn]] void abort(int exit_code) override { throw Aborted{exit_code}; }

 private:
  void carry(ByteStore& store, const Receiver& receiver) {
    bool reported = false;
    while (true) {
      std::unique_lock lock(end_.mutex);
      end_.changed.wait(lock,
                        [&] { return !end_.queue.empty() || end_.leaving || (!reported && !end_.failure.empty()); });
      if (!reported && !end_.failure.empty()) {
        std::string why = end_.failure;
        reported = true;
        lock.unlock();
        receiver.failed(why);
        continue;
      }
      if (end_.queue.empty()) return;
      auto [from, sent] = std::move(end_.queue.front());
      end_.queue.pop_front();
      lock.unlock();
      Block message = store.take(sent.size);
      std::copy_n(sent.data.get(), sent.size, message.data.get());
      receiver.arrived(from, std::move(message));
    }
  }

  FakeNetwork& network_;
  int rank_;
  End& end_;
  std::thread thread_;
};

std::unique_ptr<Transport> FakeNetwork::endpoint(int rank) { return std::make_unique<Endpoint>(*this, rank); }

std::vector<Outcome> on_processes(FakeNetwork& network, const std::function<void(Processes&)>& body,
                                  std::chrono::milliseconds patience, std::size_t part_bytes) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(network.size()));
  std::vector<std::unique_ptr<Processes>> processes;
  for (int r = 0; r < network.size(); ++r)
    processes.push_back(std::make_unique<Processes>(network.endpoint(r), patience, part_bytes));
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < outcomes.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        body(*processes[r]);
      } catch (const Aborted& aborted) {
        outcomes[r].exit_code = aborted.exit_code;
      } catch (const std::exception& e) {
        outcomes[r].error = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  return outcomes;
}

std::vector<Outcome> on_processes(int size, const std::function<void(Processes&)>& body,
                                  std::chrono::milliseconds patience, std::size_t part_bytes) {
  FakeNetwork network(size);
  return on_processes(network, body, patience, part_bytes);
}

void on_all(int size, const std::function<void(Processes&)>& body) {
  std::vector<Outcome> outcomes = on_processes(size, body);
  for (std::size_t r = 0; r < outcomes.size(); ++r)
    if (!outcomes[r].error.empty() || outcomes[r].exit_code >= 0)
      throw std::runtime_error(fmt::format("rank {} of {}: {}", r, size, outcomes[r].error));
}

}  // namespace unity::test
