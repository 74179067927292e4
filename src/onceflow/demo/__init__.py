"""The demo: the fraud job on a real Kafka through SIGKILL, and an independent proof of what came out.

payments (what is written) → producer (writes it) → fraud (the job) → chaos (kills) → verify (judges); ``run`` puts
them together, ``board`` is what they tell, ``show`` shows it.

Must not know: the rules, the journal, how an epoch commits. It sees what a user sees.
"""
