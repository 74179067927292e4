"""The demo: the fraud job on a real Kafka through SIGKILL, and an independent proof of what came out.

payments (what is written) → producer (writes it) → fraud (the job) → chaos (kills) → verify (judges); ``run`` puts
them together, ``board`` is what they tell, ``show`` shows it. Apart from it
``walk`` stops a small job, ``walk_job``, at each step of its epochs.

Must not know: the rules, the journal, how an epoch commits. It sees what a user sees.
"""
