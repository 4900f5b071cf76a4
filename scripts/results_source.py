# SPDX-License-Identifier: Apache-2.0
"""What the source report states of its runs on B300 GPUs, each figure with the place where it stands there.

Only numbers that its text, captions and tables print; what one would have to read off a curve is not here.
"""

# The contracted width of each claim: rows of other widths are not to be read beside its figures.
WIDTHS = {"fig38": 4096, "fig71": 2048, "table44": 8192, "fig40": 4096, "fig72": 4096, "fig73": 4096}

# Table 44: tokens -> dense, 4 experts, 4 / dense, 8 experts, 8 / dense; TFLOP/s, means over eight GPUs.
TABLE44 = {1: (7, 4, 0.588, 4, 0.620), 16: (111, 67, 0.601, 68, 0.608), 128: (854, 520, 0.608, 548, 0.643),
           256: (1126, 1086, 0.964, 1085, 0.963), 512: (1293, 1236, 0.956, 1230, 0.951), 1024: (1381, 1306, 0.945, 1298, 0.941),
           2048: (1422, 1356, 0.953, 1350, 0.949), 4096: (1401, 1335, 0.953, 1331, 0.950), 8192: (1416, 1252, 0.884, 1250, 0.882),
           16384: (1412, 1186, 0.840, 1184, 0.839), 32768: (1413, 1168, 0.827, 1169, 0.827), 65536: (1411, 1167, 0.827, 1167, 0.827)}

# experiment -> (what, value, where), in the order of the page's table.
STATED = {
    "fig38": {
        "faster_from": ("between 4K and 8K rows", "Section 9.6"),
        "ratio 8192": ("1.192", "Fig. 38"),
        "ratio 131072": ("1.289", "Section 9.6"),
        "grouped 8192": ("1,583", "Fig. 38"),
        "padded_bmm 8192": ("1,328", "Fig. 38"),
    },
    "fig71": {
        "faster_from": ("between 8K and 16K rows", "A.7, Fig. 71"),
        "ratio 131072": ("1.154", "A.7"),
    },
    "fig40": {
        "spearman": ("-0.86 [-0.90, -0.80]", "Fig. 40"),
        "first_bin": ("about 96 %", "Section 9.6"),
        "last_bin": ("89 %", "Section 9.6"),
    },
    "fig72": {"additional_loss": ("3 to 11 points", "A.9")},
    "fig73": {
        "grouped tflops 4096": ("1,366", "A.12"),
        "grouped tflops 32768": ("1,163", "A.12"),
        "grouped sm_mhz 4096": ("1,174", "A.12"),
        "grouped sm_mhz 32768": ("960", "A.12"),
        "per_mhz": ("1.16 to 1.19", "A.12"),
        "dense tflops": ("1,410 to 1,420", "A.12"),
        "padded_bmm tflops": ("1,210 to 1,220", "A.12"),
        "padded 8192": ("about 1.06", "A.12"),
        "padded 16384": ("below 1", "A.12"),
        "padded 32768": ("below 1", "A.12"),
        "power_cap": ("99.3 %", "Fig. 73"),
        "other_limits": ("none observed", "Fig. 73"),
        "power": ("near the board's limit of 1.1 kW", "A.12"),
    },
}
