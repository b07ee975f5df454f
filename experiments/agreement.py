"""How well predicted times agree with measured ones, over a set of plans."""


def mean_error(predicted, measured):
    """The mean of |predicted - measured| / measured, as a fraction."""
    return sum(abs(p / m - 1) for p, m in zip(predicted, measured)) / len(measured) if measured else float("nan")


def ranks(values):
    """From 1; equal values share the mean of theirs."""
    order = sorted(values)
    return [order.index(v) + (order.count(v) + 1) / 2 for v in values]


def spearman(a, b):
    """The rank correlation; nan where either is constant, or there is none to compare."""
    a, b = ranks(a), ranks(b)
    mean = (len(a) + 1) / 2
    spread = (sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b)) ** 0.5
    return sum((x - mean) * (y - mean) for x, y in zip(a, b)) / spread if spread else float("nan")


def agreement(rows):
    """Of rows with predicted_seconds and measured_seconds, as far as they have both: plans, mape, rank_correlation (None
    where there is none)."""
    pairs = [(r["predicted_seconds"], r["measured_seconds"]) for r in rows
             if r.get("predicted_seconds") and r.get("measured_seconds")]
    predicted, measured = [p for p, _ in pairs], [m for _, m in pairs]
    error, rank = mean_error(predicted, measured), spearman(predicted, measured)
    return {"plans": len(pairs), "mape": error if error == error else None, "rank_correlation": rank if rank == rank else None}


def in_words(found):
    """What agreement() found, as a line."""
    error, rank = found["mape"], found["rank_correlation"]
    return (f"{found['plans']} plans: mean absolute percentage error of the iteration {'-' if error is None else f'{error:.1%}'}, "
            f"rank correlation {'-' if rank is None else f'{rank:.3f}'}")
