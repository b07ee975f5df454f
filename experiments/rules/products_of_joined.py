"""Writes the rules of products of joined features for some numbers of features, as in named.rules.

python3 experiments/rules/products_of_joined.py 5 12
"""
import sys

NUMBERS = "five six seven eight nine ten eleven twelve".split()


def by_twos(terms):
    if len(terms) == 1:
        return terms[0]
    half = (len(terms) + 1) // 2
    return f"add({by_twos(terms[:half])}, {by_twos(terms[half:])})"


def rule(count):
    numbers = range(1, count + 1)
    sizes = ", ".join(f"dim(x{i}, rank(x{i}) - 1)" for i in numbers)
    return (f"rule matmul_of_concat_in_{NUMBERS[count - 5]}\n"
            f"  let ({', '.join(f'w{i}' for i in numbers)}) = split(0, [{sizes}], w)\n"
            f"  matmul(concat(a, {', '.join(f'x{i}' for i in numbers)}), w) => "
            f"{by_twos([f'matmul(x{i}, w{i})' for i in numbers])}\n"
            f"  where a == rank(x1) - 1\n")


print("\n".join(rule(count) for count in range(int(sys.argv[1]), int(sys.argv[2]) + 1)), end="")
