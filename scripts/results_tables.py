# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/results: the figures of one summary (moesaic.experiment_summary/1) beside what the source states.

Statistics are the command's (tools/moesaic/experiment/summary*.cpp); here they are only put in words. `beside` says
whether the rows have the widths of the claim, so that its figures may stand beside them.
"""
from results_source import STATED, TABLE44

NONE = "–"
FIG2_TOKENS = (1, 16, 64, 256, 1024, 4096, 16384, 65536, 131072)


def distinct(values):
    """Distinct words in the order of their first appearance; a number is one however it was written."""
    words = (f"{value:g}" if isinstance(value, float) else str(value) for value in values if value not in (None, "", 0))
    return ", ".join(dict.fromkeys(words)) or NONE


def table(head, rows, words=1):
    """A table whose first `words` columns are text."""
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join(["---"] * words + ["---:"] * (len(head) - words)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def whole(value):
    return NONE if value is None else f"{value:,.0f}"


def rate(value):
    """TFLOP/s."""
    return NONE if value is None else whole(value) if value >= 100 else f"{value:.4g}"


def fraction(value):
    return NONE if value is None else f"{value:.3f}"


def percent(value):
    if value is None:
        return NONE
    return f"{100 * value:.1f} %" if value == 0 or abs(value) >= 0.0005 else f"{100 * value:.1g} %"


def stated(name, device, beside, rows):
    """The stated figures of an experiment: what, ours, the source's, where it stands. rows: (key, what, ours)."""
    if not beside:
        return "No stated figures beside these rows: their widths are not the claim's."
    return table(["stated figure", device, "B300", "where"], [[what, ours, *STATED[name][key]] for key, what, ours in rows])


def sweep(name, device, figures, beside):
    sizes = {size["rows"]: size for size in figures["sizes"]}
    arms = sorted({arm for size in sizes.values() for arm in size["tflops"]}, key=lambda arm: (arm != "grouped", arm))

    def value(rows, of):
        return of(sizes[rows]) if rows in sizes else None

    crossed = figures["grouped_faster_from"]
    rows = []
    for key in STATED[name]:
        what, _, size = key.partition(" ")
        if what == "faster_from":
            rows.append((key, "grouped is faster than padded from", f"{crossed:,} rows on" if crossed else "no size on"))
        elif what == "ratio":
            rows.append((key, f"time padded ÷ grouped, {int(size):,} rows", fraction(value(int(size), lambda one: one["padded_over_grouped"]))))
        else:
            rows.append((key, f"{what}, useful TFLOP/s, {int(size):,} rows", rate(value(int(size), lambda one: one["tflops"].get(what)))))
    return [stated(name, device, beside, rows),
            "Useful TFLOP/s by the mean of the samples:\n\n" + table(
                ["rows", "per expert", *arms, "padded ÷ grouped", "torch ÷ grouped"],
                [[f"{rows:,}", f"{one['rows_per_expert']:,}", *(rate(one["tflops"].get(arm)) for arm in arms), fraction(one["padded_over_grouped"]),
                  fraction(over_grouped(one["mean_s"], "torch"))] for rows, one in sorted(sizes.items())], 0)]


def over_grouped(seconds, arm):
    return seconds[arm] / seconds["grouped"] if arm in seconds and "grouped" in seconds else None


def table44(_name, device, figures, beside):
    parts = []
    for arm, points in figures["arms"].items():
        rows = []
        for point in points:
            four, eight = point["partitions"]
            ours = (rate(point["dense_tflops"]), rate(four["tflops"]), fraction(four["over_dense"]), rate(eight["tflops"]), fraction(eight["over_dense"]))
            source = TABLE44.get(point["tokens"], (None,) * 5)
            theirs = (whole(source[0]), whole(source[1]), fraction(source[2]), whole(source[3]), fraction(source[4]))
            cells = [cell for pair in zip(ours, theirs) for cell in pair] if beside else ours
            rows.append([f"{point['tokens']:,}", distinct((four["trials"], eight["trials"])), *cells])
        names = ("dense", "4 experts", "4 ÷ dense", "8 experts", "8 ÷ dense")
        head = [word for name in names for word in (name, "B300")] if beside else names
        source = "beside B300 (Table 44, the subset that it prints)" if beside else "(other widths than the claim's)"
        parts.append(f"`{arm}` on {device} {source}; useful TFLOP/s, means over trials; dense is of both partitions' controls, a ratio of its own:\n\n" + table(["T", "trials", *head], rows, 0))
    return parts


def interval(series):
    spearman = series["spearman"] if series else {"rho": None}
    if spearman["rho"] is None:
        return NONE
    return "{rho:.2f} [{low:.2f}, {high:.2f}]".format(**spearman)


def fig40(name, device, figures, beside):
    parts = []
    for arm, series in figures["arms"].items():
        tails, twins = ({one["bin"]: one["median"] for one in (series[rows] or {"bins": []})["bins"]} for rows in ("tails", "whole_tiles"))
        count = len(series["tails"]["histograms"]) if series["tails"] else 0
        parts.append(f"`{arm}`, {count} histograms:\n\n" + stated(name, device, beside, [
            ("spearman", "Spearman of I_H and throughput, 95 % interval", interval(series["tails"])),
            ("first_bin", "median of the balanced throughput, I_H 0.0 to 0.1", percent(tails.get(0))),
            ("last_bin", "median, I_H 0.9 to 1.0", percent(tails.get(9)))]))
        rows = [[f"{bin / 10:.1f} to {(bin + 1) / 10:.1f}", percent(tails.get(bin)), percent(twins.get(bin))] for bin in sorted({*tails, *twins})]
        parts.append(f"`{arm}`, median throughput relative to the controls; Spearman of the twins {interval(series['whole_tiles'])}:\n\n" +
                     table(["I_H", "multiples of 8 rows", "twins in whole tiles"], rows))
    return parts


def range_words(spread):
    return NONE if spread["mean"] is None else f"{percent(spread['mean'])} ({percent(spread['least'])} to {percent(spread['most'])})"


def lost_points(point):
    """Percentage points of balanced throughput that three hot experts lose beyond the single spike."""
    means = point["single_spike"]["mean"], point["three_hot"]["mean"]
    return None if None in means else 100 * (means[0] - means[1])


def fig72(name, device, figures, beside):
    parts = []
    for arm, points in figures["arms"].items():
        losses = [lost_points(point) for point in points if point["pair"] == "i_max" and lost_points(point) is not None]
        ours = f"{min(losses):.1f} to {max(losses):.1f} points over {len(losses)} sizes" if losses else NONE
        parts.append(f"`{arm}`:\n\n" + stated(name, device, beside, [("additional_loss", "three hot experts lose more than a spike of the same I_max", ours)]))
        parts.append(f"`{arm}`, throughput relative to the balanced load of the same process, mean and range over processes:\n\n" + table(
            ["rows", "same", "processes", "balanced TFLOP/s", "single spike", "three hot", "further loss, points"],
            [[f"{point['rows']:,}", point["pair"], str(point["processes"]), rate(point["balanced_tflops"]), range_words(point["single_spike"]),
              range_words(point["three_hot"]), NONE if lost_points(point) is None else f"{lost_points(point):.1f}"] for point in points]))
    return parts


def span(values, form):
    """"1.16 to 1.19" """
    known = [value for value in values if value is not None]
    low, high = (form(min(known)), form(max(known))) if known else (NONE, NONE)
    return low if low == high else f"{low} to {high}"


def fig73(name, device, figures, beside):
    at = {(size["arm"], size["rows_per_expert"]): size for size in figures["sizes"]}
    looks = figures["looks"]

    def value(arm, rows, of):
        return at[arm, rows][of] if (arm, rows) in at else None

    def all_of(arm, of):
        return [size[of] for size in figures["sizes"] if size["arm"] == arm]

    def padded(rows):
        grouped, batch = value("grouped", rows, "tflops"), value("padded_bmm", rows, "tflops")
        return fraction(grouped / batch) if grouped and batch else NONE

    def share(of):
        return percent(looks[of] / looks["all"]) if looks["all"] else NONE

    rows = []
    for key in STATED[name]:
        words = key.split()
        if len(words) == 3:
            unit = {"tflops": "TFLOP/s", "sm_mhz": "SM clock, MHz"}[words[1]]
            rows.append((key, f"{words[0]}, {unit}, {int(words[2]):,} rows per expert", (rate if words[1] == "tflops" else whole)(value(words[0], int(words[2]), words[1]))))
        elif words[0] == "padded":
            rows.append((key, f"time padded ÷ grouped, {int(words[1]):,} rows per expert", padded(int(words[1]))))
        elif len(words) == 2:
            rows.append((key, f"{words[0]}, TFLOP/s, all sizes", span(all_of(words[0], "tflops"), rate)))
    rows += [("per_mhz", "grouped, TFLOP/s per MHz, all sizes", span(all_of("grouped", "tflops_per_mhz"), lambda one: f"{one:.3f}")),
             ("power_cap", "looks in which the power cap held the clock down", share("power_capped")),
             ("other_limits", "looks in which another limit did", share("otherwise_limited")),
             ("power", "power, W, all arms and sizes", span([size["power_w"] for size in figures["sizes"]], whole))]
    return [stated(name, device, beside, rows),
            "Medians over trials:\n\n" + table(
                ["arm", "rows per expert", "trials", "TFLOP/s", "SM MHz", "TFLOP/s per MHz", "W"],
                [[size["arm"], f"{size['rows_per_expert']:,}", str(size["trials"]), rate(size["tflops"]), whole(size["sm_mhz"]),
                  fraction(size["tflops_per_mhz"]), whole(size["power_w"])] for size in sorted(figures["sizes"], key=lambda one: (one["arm"] != "grouped", one["arm"], one["rows_per_expert"]))])]


def skew(_name, _device, figures, _beside):
    parts = ["The source report has no such figure. Time over that of `grouped` on the same record:\n\n" + table(
        ["bucket", "arm", "records", "geometric mean", "least", "most"],
        [[one["bucket"], one["arm"], str(one["records"]), *(fraction(one[of]) for of in ("geometric_mean", "least", "most"))] for one in figures["buckets"]], 2)]
    if figures["pairs"]:
        parts.append("The broadest and the most concentrated record at the same rows:\n\n" + table(
            ["pair", "arm", "broad, µs", "concentrated, µs", "concentrated ÷ broad"],
            [[one["pair"], one["arm"], f"{1e6 * one['broad_s']:,.1f}", f"{1e6 * one['concentrated_s']:,.1f}",
              fraction(one["concentrated_s"] / one["broad_s"])] for one in figures["pairs"]], 2))
    return parts


def fig2(rows):
    """Of rows of moesaic.roofline/1: shares of the preset's peak."""
    curves = {}
    for row in rows:
        peak = row["sources"]["bf16_flops_per_second"]["value"]
        curves[row["device_preset"], row["experiment"]["arm"]] = {point["tokens"]: point["bound_flops_per_second"] / peak for point in row["points"]}
    shape = rows[0]["shape"]
    return [f"Arithmetic, no measurement: {shape['experts']} experts, top-{shape['top_k']}, d = h = {shape['d']:,}. The source report draws these curves "
            "for B300 and states no figures. Bound as a share of the preset's peak:\n\n" + table(
                ["tokens", *(f"{arm}, {preset}" for preset, arm in curves)],
                [[f"{tokens:,}", *(percent(curve.get(tokens)) for curve in curves.values())] for tokens in FIG2_TOKENS], 0)]


TABLES = {"fig38": sweep, "fig71": sweep, "table44": table44, "fig40": fig40, "fig72": fig72, "fig73": fig73, "skew": skew}
