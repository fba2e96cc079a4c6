"""Which device is off, since when, and why: a reference of its rows while all was well.

The moving subspace learns every row, a fault as well: within some twenty rows its loss says nothing
of it any more. So beside it stands a reference, made from a stretch of rows and then kept
("first"), or moved on slowly by rows that were not odd ("gated").

**What is held.** Rows are scaled as at the start and embedded, e_t = (x_t, ..., x_{t-L+1}, f_t,
s_t), beside two means over time: f ← f + .3(x - f), some three rows, and s ← s + .02(x - s), some
fifty, where a row pulls by ten deviations at most. L are the `lags`; E = D(L + 2) is kept below 192
by fewer lags, then without f and s. Over the n rows learned, mean m and scatter; of C = scatter/n +
ρ(tr C/E)I the lower triangular W with WᵀW = C⁻¹. y = W(e - m) has variance 1 in every entry over
the rows that were learned, but not over those to come: each entry is divided by its deviation over
rows that were not learned yet when it was measured, which counts as 1 in ten rows beforehand. And a
kernel subspace of the rows themselves, tracked by the covariance tracker, which takes a tenth of
them in, by leverage.

**Scores.** d = ‖y‖ sees what is far out or breaks the channels' linear ties, now and over time. α =
√-ln ‖q‖² sees what lies where no row was, between the modes of a device too: ‖q‖² is the squared
cosine between a row and the kernel subspace, 1 - ℓ, so that α grows as the distance from the
nearest rows of the reference does and goes on where the residual ℓ is all but 1. The score is (u +
v/2)/1.5, u and v being d and α over their means on rows that were not learned yet.

The mean score of the last 41 rows *settles* the middle one, 20 rows later: what lasts stands out
from what is odd once, and a row is held against what came after it, too.

**Windows** (`window` w, a number of rows or the device's period). The shape of the last w rows is
held against the shapes that the rows had which were learned unseen, at most 8,192 numbers of them
or 1,024 rows: δ² is the smallest squared distance from 1,024 of their windows, evenly over them,
four that follow one another each. Of a window at most 32 rows count, evenly, fewer where more than
128 numbers would (four at least), each channel without its mean over them. The score is (u + v/2 +
ct)/(1.5 + c), t being δ over its mean on the second half and c = 18/D²: of one channel, which no
other explains, its shape says the most, of many their ties do. Where fewer than w rows have come
since a gap t is 1. The evidence has the surprise of the rows as without windows, and 4/w of what
that of t alone is beyond 2k: windows that follow one another have most of their rows in common. The
period is the highest local maximum, 3 to 300 rows, of the channels' mean autocorrelation over those
rows (125 without one); w is a period, 32 at least and a quarter of those rows at most. A row whose
t is further above 1 than d and α are counts for the channels by their parts of δ².

**Calibration.** The first half of the stretch is learned unseen. From then on each row is scored
before it is learned, so that the second half's scores are those of rows that the reference did not
know. Up to 512 of them are kept, one of every run of 2ⁿ rows: where they are more, one of two
neighbours goes, drawn by Philox from the rows' number, and n grows by 1. So the whole second half
counts evenly, whatever its length. p is the share of the kept ones that is not below a score;
beyond the highest tenth a generalised Pareto tail (Hosking and Wallis 1987; Siffer et al. 2017)
takes over, with a shape from .1 to .5. A small p is surprising.

**Evidence.** What lasts adds up in it anyway, and means over time would count a row for as long as
they last: so its p is that of a score of its own, with ‖y‖ over the first DL entries alone, which
are the whitened rows without f and s. S ← max(0, S - ln p - k min(max(v, 1), 4)), k `drift`: Page's
sum (1954) of surprises, whose mean is 1 while all is well. A spike raises it at once, a slow ramp
over time. v is the level that surprise has come to, v ← v + .001(-ln p - v), some 1,000 rows: a
small change that lasts is let pass after a while, so that its episode ends and what comes later is
seen; p and h do not follow. A change between two modes that are both usual is odd in its order
alone, and for as long as there are lags: where no newest row among the last L is surprising by
itself, one by the first D entries of W(e - m), -ln p counts as at most 4. Excursions of S from 0
have heights with an exponential tail (Cramér and Lundberg); h is where one is as rare as stated, by
the highest quarter of those so far, ten to 64: by their lowest h₀, how many rows they came in, and
the mean m of what the k others have beyond it. As m is estimated, the tail is that of the
predictive distribution, (1 + (h - h₀)/km)^-k. So rows that resemble their neighbours, or that are
wilder than the calibration's, raise h by themselves; no independence is assumed. m is at least that
of independent rows. An episode that is over counts, too: where they come more often than stated, h
rises. The first excursions are those of the second half: of its first 512 rows by the calibration
that these make; of the rows after them, each by a calibration of the rows before its block, where S
stays below 60, since those may be too few to judge by.

**Stuck channels** may lie well inside all that is usual. A channel that repeats its value for k
rows more than four times its longest run before the calibration, and five, has the surprise -k ln
q, q how often it repeated one then, at most ½; what goes into S is at least the largest of the
channels'. p is that of the score alone.

**Episodes.** One is open from where S exceeds h until it fell by 60 from its highest, or to 0; S
stays below 1.5h. So it ends some hundred usual rows after the last odd one, which `last` names: the
last of p < .01 before S fell by 15. It began where S last was below h/50. Its kind is `spike` (a
few odd rows), `ramp` (rows became odder after it was noticed), `stuck` (a channel is, in most of
its rows) or `shift`. One that never came to 1.5h may be none: its rows may be learned.

**Why.** With Ω = WᵀW over those entries and A those of some channels, d² would fall by
v_AᵀΩ_AA⁻¹v_A, v = Ωe, if these were what the others make of them (the conditional mean of a normal
distribution). Of a row of an episode the channel is taken out without which d² is smallest, then
the next one beside it, up to three, until what is left is usual; then others take their places, as
long as that makes d² smaller still. Where three are most of d² and yet leave more than is usual,
they may stand for others: the search begins anew with up to three that are not among them, and the
best end counts. What they took along, over d²'s usual value, they share by what d² would grow again
without each. That says what the linear ties speak of. A row whose α is further above its mean than
its d counts for the channel without which it would lie nearest to a stored row of the kernel
subspace, by how much ‖x - s‖²/γ falls over the square of α's mean. All of an episode's first 256
rows are searched so, of the next 256 one of two, of the next 512 one of four and so on, drawn by
Philox, and each counts for as many: for an episode of a million rows some 1,800 are searched.

**How far.** Of the channels that a row is blamed on, δ_A = Ω_AA⁻¹v_A is how far they are above what
the others make of them, and u² the newest entry's place in Ω_AA⁻¹, its usual square. On each side
the sums of (δ/u)² and of δ((δ/u)² - 2) are kept, from the row on that the episode began with: their
ratio is the mean deviation, as E[x(x²/u² - 2)] = μE[x²/u²] of a normal x, and rows that are usual
add nothing to the second one. In an episode of the hours, δ is the distance from the hour's mean.

**Until.** Where the stretch ends at an event time, it is learned from on as above, half of `rows`
unseen, and calibrated by the scores of the rows from then to that time. A rate in event time is one
in rows by the mean distance of the stretch's rows in time.

**A new normal.** An episode that lasts longer than `accept_after` rows is closed as accepted, and
the reference is made anew, from the rows that follow, by the scale of the last 128. By default none
is: a fault that lasts stays one.

**Gated.** Every 128 rows those are learned that lie in no episode, with a memory of eight
stretches; one of 2ⁿ rows is kept for calibrations, as in the stretch, and the calibration is made
anew, of the last 512, when as many were kept as it was made of.

**Gaps.** A row that comes longer than `gap` after the one before, and than four usual steps (the
mean distance of the rows so far, once there are 64), is held against no row before it: the lags
before it are the row itself, f and s what they are on the mean, no channel repeats its value. S
begins at 0, but in an episode, which goes on; a settled score waits for 41 rows again.

**Auto.** A reference that moves: for sites with days, weather and ageing, where a stretch that is
kept soon is not what is normal. All that it holds are sums that fade: where rows beyond the
`memory` M have been added, a sum is scaled down to M rows. Good rows wait until they are a
fourteenth of the memory (an eighth of the rows so far, at first), and are then learned all at once,
m, C and W: so a fault is noticed before it is learned. An episode throws away what waits, and its
own rows never wait. The ridge is a tenth, of each channel's own mean C_ii over its entries, 1 at
least: the first rows, which channels are scaled by, may be those of a night, and beside a channel
that does far more by day the ridge of all would hide another. There is no kernel subspace (ℓ and
`ref_loss` are null), and y is not divided by deviations. Of each row there are Q = 2D + 4 scores,
one more with windows, each made before the row waits:

- d = ‖y‖, whose p and score are written; it has no evidence;
- of each channel v_AᵀΩ_AA⁻¹v_A, A being all entries of the channel, v = Ωe, is by how much d² would
  fall if the channel, now, before and over time, were what the others make of it. What all
  channels do together, as they do with a load or with the weather, is not in it, a fault of one
  sensor is nothing else. With Ω_AA = GGᵀ, A with the rows first, then f and s, it is ‖G⁻¹v_A‖²,
  whose last entry u is what s alone says, and whose first L ones are what the rows say beside f and
  s. The root r of the sum of these squares gives one score, r/√(1 + .49j²): with L > 1, j is by how
  far what the others make of the channel's newest value, x less the first of Ω_AA⁻¹v_A, is from
  what they make of the one before, in deviations, the root of the first of the diagonal of Ω_AA⁻¹.
  When a load changes, a channel may follow at once or a row later. The other is |u|/√(1 + (m/5)²),
  m being how far the others make s be from its mean, in the unit of u: how channels go along was
  learned near to what is usual, and is known to a fifth of such a way. In a frost, all that the
  weather explains may be further off;
- of all channels likewise what the rows say beside f and s, and what s says: s and f come first in
  W, so that these are the last DL entries of y and the first D. The former counts by the same part
  as the channels' r, by their squares together;
- the largest |x - μ_h|/σ_h of the channels, of the hour h of the day (`zone`) with half of those
  beside it, once it has 12 rows, a quarter of them its own, and three days are known (`season`):
  work at night. The hours of days off may be known by themselves: work at the weekend. An hour that
  is always quiet is not known by those beside it. Rows before are not counted; the hours have
  evidence once a quarter of the rows that are kept were counted, and open episodes once half of
  them were, since a memory may be shorter than three days;
- where a window is asked for, δ as above, of windows beside those of the rows that are remembered,
  8,192/D or 1,024 of them at most, without those that wait. w is found whenever so many rows are
  known as another power of two, until episodes open; what was counted of windows of another length
  goes. The score of all is then (d + ct√E)/(1 + c), c = 12/D², and t is δ over its mean, 1 where
  there is none. Its evidence counts 4/w as well, once half of the rows that are kept have a δ;
  windows with rows of an episode that is over have none, and are not counted.

Channels that explain others and are never off themselves, as the weather, are `causes` and have no
scores: d is that of the other channels given the causes, now, before and over time, whose entries
come before all in W, so that those of y behind them are what they leave of the rest; the others'
own scores know them anyway. Neither their hours count nor that they are stuck.

Where a channel says which `mode` the device is in, m, C, W, what waits, the counts of scores and
the channels' runs are those of a mode, as many as `max_modes`, the first ones that come; of other
modes rows have no p. The memory of a mode is its share of the rows since its first one, 1,024 at
least. As another mode begins the lags before are the row itself, f and s what they are on the
mode's mean, and L rows are spared. A mode has a p once 256 of its rows were learned and as many
scored (of 512 `rows`), and evidence once a memory has passed since its first row. Evidence, its
heights and h, and the hours, are the device's: a mode at an hour at which there was none is odd.
The channel itself is 0 in every row, which makes it a cause that says nothing. A quarter of as many
rows as came since the mode before began, 150 at most, are held then: what takes its time, as heat
does, is learned and has a p, but nothing of it except for the hours is evidence while no episode
is open.

**A device at rest** is found by itself where no channel says the mode. Of each channel but causes
the lowest and the highest value that came three times in a row are bounds. One says that the device
is at rest where it was had in six rows, in three times as many as came within half a deviation of
it, and in fewer than three of ten; in two spells before, each of half an hour of fourteen days of
memory (six rows at least), that began more than six hours apart; and for less than two days so far.
Where two channels say so at once, and one of four, the row is held, by the hours too, and so are
twice as many rows after it as the device was at rest, 150 at most. A standstill comes on few days,
and what many rows of one day show is not known to one in ten years. One channel at its bound may be
a sensor that fails: on GECCO, where sensors of water do so one by one, one channel alone would hide
20 of 48 events that are noticed.

The scores are counted in bins of an eighth of an octave. p goes by the counts, beyond the highest
tenth by a generalised Pareto tail of their first two moments (Hosking and Wallis 1987), 1.3 times
as wide, with a shape .1 above theirs, from .05 to .5: of a heavy tail a memory seldom shows the
farthest scores. Of s alone the shape is .25 above, since its scores are those of few rows that
differ. Each stream but the first has a Page's sum, S ← max(0, S + c(-ln p - 2k)), of the windows -
3k, of the hours - 4k, and a threshold at which excursions come as rarely as the stated rate over
their number, of that of the hours only where these are known: of the highest ones of blocks of 128
rows, counted in bins likewise, the highest quarter, 10 to 24, gives h as above, m being their mean
beyond the begin of the bin of the lowest, of all k. Excursions of several streams that come
together are fewer than the sum of these rates, the most that they can be: so those of the largest
S/h are counted likewise, each until it fell to half, and each stream's threshold is that part of
its h, .9 to 1, at which these are as rare as stated: not less, since a memory has not seen all that
comes.

What s says it says in many rows, so of it c = 1/(25 + .7r), r being the variance of s over that of
the newest row, beside what the other channels make of them, in units of what it is on independent
rows, .02/1.98: 26 rows there, 36 on AR(.9), 71 on AR(.99); of all channels their mean. Elsewhere c
is 1. So a height is how odd the device was, not for how many rows the mean showed it, and heights
thin out at one pace, which a memory's few excursions tell. One sum of both would have many low
excursions and a few of s, several times as high, of which a memory shows one or none: at one in a
million independent rows had 33 times the stated rate, AR(.99) 190 times.

With 3,072 rows of memory or more each s has a second sum, of what lasts: it lets pass 4k/3, and -ln
p counts as 7k/3 at most, so that rows that are all a little odd add up, which a few days with some
very odd rows would hide. Its heights are counted in bins of a quarter of an octave; its h is made
by the rate of its s, whose scores it is of. Rows of a shorter memory are learned before it adds up.

From an eighth of a memory on excursions are counted, of the hours and of modes from half of one on;
episodes open once a memory was seen; `p` is there from `rows` on. A memory that has just been seen
does not show what comes once in a while: h is four times as far then, and comes back over .6 of a
memory. An episode is no excursion: it is what was not normal, and if its height counted, the same
event would be hidden when it comes again; of all streams together it is one, so that what opens
more episodes than stated does not lower thresholds further. In an episode what S lets pass follows
the level that its surprises come to, v ← v + .002(-ln p - v), up to 20 times: so it ends after a
lasting change, what comes later is seen, and what is normal now is learned. v falls back likewise,
before there is another. An episode that is over by the evidence it was opened by goes on while that
of another stream still grows, beyond half of its h: a slow mean shows for some hundred rows what
was; for 150 rows after the last odd one it has no evidence. Where most of the last rows are still
odd as it ends, the episode is `steady`, the device has changed, and m and W of before it are kept.
Rows of a later episode that are usual under these, or nearer to that m than half of what lies
between it and the m of now, have `recovered`, where the m of now would not have been usual itself:
before anything of the change was learned no row can tell. Both are judged without f and s, which
show for some hundred rows what was. The blame of a row goes to the channel by which d² would fall
most. After a gap, a distance of more than four usual ones, as many rows as twice the gap had, 150
at most and a quarter of those since the gap before, are spared: neither evidence nor learned. Where
a cause, or a mean of it over time, goes further than on any of the last 16 days that were learned
(a day: the rows that are learned together), nothing is known of the rest: once episodes may open,
and while none is open, such a row is no evidence, but is learned. Stuck channels count in their own
stream; their runs are learned for a memory. A memory in time is one in rows by the pace of the rows
so far; without times it is 4,032 rows.

Where rows come so often that two days have 4,096 of them, eight times `rows`, the first scores are
by some hours of one day alone, and far too high: all but 64 are forgotten once two days are over.

**Two references** of a device (`also_every`): one of all rows, one of the first row of each span of
event time, with lags, means and a memory of its own. Scores are those of the first. Its episodes
count that opened within five spans of their begin, and all until the second one knows enough: of
false ones on simulated sites with a row a minute, each took half an hour or longer, of events that
all rows notice all but one in fifty opened sooner. An episode is open while either has one open;
what it is, is as the second one says, where it was open there. What people say of one counts for
all episodes of both between its times.

**False episodes** of a reference that moves become normal once people say so. Of a row that an
episode leaves out, the channel by which d² would fall most is taken out, by δ = Ω_AA⁻¹v_A, as long
as one of its scores is beyond the highest tenth of its stream's, three times at most. Of the last
four episodes the Σδδᵀ of each channel are kept, with its rows, their sum and squares, and their
hours of the day. At the end of the block in which people said that it was false, or in which it was
over, 6Σδδᵀ goes into the scatter, the entries of one channel each: how far it was off may come
again, of ties between channels nothing is learned, and m stays. Then the rows' scores are counted,
six times, at 1.5 times their root mean square under the new W, and likewise what its first and last
2L rows said beside the means over time, the newest one alone being off; the hours have the mean and
square of all of its rows. 6 and 1.5 were chosen on simulated sites
(`benchmarks/bench_feedback.py`).

Cost per row: O(E²) for d², O(BD + Br) for ℓ; O(128E + E³/128) where it learns. State: see
`ReferenceState`. All sums have one order: the same bits however rows are cut into calls.

References: E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954. J. R. M. Hosking,
J. R. Wallis, "Parameter and quantile estimation for the generalized Pareto distribution",
Technometrics 29, 1987. A. Siffer, P.-A. Fouque, A. Termier, C. Largouët, "Anomaly detection in
streams with extreme value theory", KDD 2017. S. Asmussen, "Applied Probability and Queues", 2003,
section XIII.5, for the excursions. The combination, with its constants, is this project's.

The names that `__init__.pyi` lists are imported when they are asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
