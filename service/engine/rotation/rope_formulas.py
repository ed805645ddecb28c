"""The formulas of RoPE's scaling as the rotary schemes tell them."""

SCALING = """\
**Scaling** (`rope_type`), with w_k = base^(-2k/d), d = rotary_dim, s = `factor`, L0 =
`original_max_position_embeddings`, Lmax = `max_position_embeddings`, n = `seq_len`, u_k = L0 w_k / 2 pi the turns that
pair k makes in the trained length:

- `linear`: w_k / s
- `dynamic`: base' = base (s n / Lmax - s + 1)^(d/(d-2)) for n > Lmax; `dynamic_rule=uniform`: w_k / s^(d/(d-2))
- `ntk_aware`, `ntk_alpha`: base' = base s^(d/(d-2)), with alpha for s
- `ntk`: w_k s^(-2(k+1)/d); with `mixed_b`: w_k s^(-(2(k+1)/d)^b)
- `ntk_by_parts`: g_k w_k + (1 - g_k) w_k / s, g_k = (u_k - beta_slow) / (beta_fast - beta_slow) within 0 ... 1
- `yarn`: the same with g_k = 1 - (k - low) / (high - low), low = D(beta_fast), high = D(beta_slow),
  D(r) = d ln(L0 / 2 pi r) / (2 ln base), within 0 ... d - 1; A = m(mscale) / m(mscale_all_dim) if both are given, else
  m(1), m(c) = 1 + 0.1 c ln s
- `longrope`: w_k / long_factor_k for n > L0, else w_k / short_factor_k; A = sqrt(1 + ln s / ln L0)
- `llama3`: the blend of `ntk_by_parts` between low_freq_factor and high_freq_factor turns
- `proportional`: d = the whole head, w_k / s for the first int(partial_rotary_factor d / 2) pairs, 0 for the others
- `frequencies`, `divisors`: your own w_k; your own divisors of w_k

A, the **attention factor**, multiplies cos and sin (1 unless said). A pasted Hugging Face block, `rope_parameters` or
`rope_scaling`, stands for these parameters: a key of a JSON body, or URL-encoded JSON in the query. Nothing depends on
earlier requests: `dynamic` and `longrope` go by `seq_len`."""

FORMULAS = f"""\
{SCALING}

**xPos** (`xpos_scale_base` B, `xpos_center` c): for queries cos and sin are also multiplied by
((2k + 0.4 d) / (1.4 d))^((p - c) / B), for keys divided by it."""
