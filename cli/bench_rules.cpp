// unity bench rules: proofs, the generator and the matcher.
#include <algorithm>
#include <ctime>
#include <functional>

#include "cli/bench.h"
#include "core/generate/enumerate.h"
#include "core/models/models.h"
#include "core/rewrite/library.h"
#include "core/rewrite/match.h"
#include "core/verify/verify.h"

namespace unity::cli {

// Of the library: its proofs; of the generator: all its graphs; of the matcher: all rules on BERT-Large.
std::vector<BenchFigure> bench_rules() {
  std::vector<BenchFigure> figures;
  auto seconds_of = [](const std::function<void()>& run) {
    std::clock_t begin = std::clock();
    run();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  std::vector<double> proofs;
  double all = 0;
  for (const Rule& rule : rule_library()) {
    proofs.push_back(seconds_of([&] { verify(rule); }));
    all += proofs.back();
  }
  std::sort(proofs.begin(), proofs.end());
  figures.push_back({"library_rules", "", static_cast<double>(proofs.size())});
  figures.push_back({"proofs_seconds", "s", all});
  figures.push_back({"proof_median_seconds", "s", proofs[proofs.size() / 2]});
  figures.push_back({"proof_longest_seconds", "s", proofs.back()});

  std::int64_t graphs = 0;
  double enumeration = seconds_of([&] {
    for (Family& family : default_families())
      for (std::int64_t n : enumerate(family).counts.graphs) graphs += n;
  });
  figures.push_back({"enumerated_graphs", "", static_cast<double>(graphs)});
  figures.push_back({"enumerated_graphs_per_second", "", static_cast<double>(graphs) / enumeration});

  Pcg model = build_model({"bert-large", {}});
  std::int64_t matches = 0;
  double matching = median_seconds([&] {
    MatchIndex index(model);
    matches = 0;
    for (const Rule& rule : rule_library()) matches += static_cast<std::int64_t>(find_matches(index, rule).size());
  });
  figures.push_back({"bert_large_matches", "", static_cast<double>(matches)});
  figures.push_back({"bert_large_matching_seconds", "s", matching});
  return figures;
}

}  // namespace unity::cli
