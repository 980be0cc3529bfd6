"""Names for the values of a convolution's knobs."""

# lanes: the dimension along which the vectors of a register tile run.
CHANNELS, PIXELS = "channels", "pixels"
# pack_data: the form in which the input is read: as it is, or copied, in the user's layout or in blocks of channels.
AS_IT_LIES, PLAIN, BLOCKED = "no", "plain", "blocked"
# inner: the innermost loops in the reduction of a block of channels.
CHANNELS_INSIDE, FILTER_INSIDE = "c", "k"
# unroll_k: the loops over the filter that are written out.
NO_LOOP, KW, KH_KW = "none", "kw", "kh_kw"
# order: the outer loop over blocks.
ROWS_OUTSIDE, CHANNELS_OUTSIDE = "ho", "oh"
# order_tiles: the loops over the tiles of a block, outermost first: output channels, rows, columns.
OHW, HOW, HWO = "ohw", "how", "hwo"
# data_at, weights_at: the place of a copy: beforehand, or in parts for each of the outermost blocks.
ROOT, BLOCK = "root", "block"
