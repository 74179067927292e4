-- Queries over the rows of given.json, each compared as a whole.
-- What has windows is asked of Flink as a stream, anything else as a batch.

-- == aggregates
SELECT COUNT(*), COUNT(i), COUNT(h) FROM t
SELECT COUNT(*), COUNT(h) FROM t WHERE id < 0
SELECT SUM(h), AVG(h), MIN(h), MAX(h) FROM t WHERE id < 0
SELECT SUM(h), AVG(h), MIN(h), MAX(h) FROM t WHERE h IS NULL
SELECT k, COUNT(*), COUNT(h), SUM(h), AVG(h), MIN(h), MAX(h) FROM t GROUP BY k
SELECT k, SUM(tiny), SUM(small), AVG(tiny), AVG(small) FROM t GROUP BY k
SELECT k, SUM(j), AVG(j) FROM t GROUP BY k
SELECT k, AVG(i) FROM t GROUP BY k
SELECT SUM(i) FROM t
SELECT SUM(i) FROM t WHERE i > 0
SELECT SUM(tiny) FROM t WHERE tiny > 0
SELECT AVG(tiny) FROM t WHERE tiny > 0
SELECT AVG(i) FROM t WHERE i > 0
SELECT AVG(big) FROM t WHERE big BETWEEN -1000000 AND 1000000
SELECT SUM(big) FROM t WHERE big > 0
SELECT AVG(big) FROM t WHERE big > 0
SELECT SUM(big) FROM t WHERE big BETWEEN -1000000 AND 1000000
SELECT k, SUM(m), AVG(m), MIN(m), MAX(m) FROM t GROUP BY k
SELECT SUM(z), AVG(z) FROM t
SELECT SUM(n), AVG(n) FROM t WHERE n BETWEEN -1000000000 AND 1000000000
SELECT SUM(n) FROM t
SELECT SUM(m * m) FROM t
SELECT AVG(m * m) FROM t
SELECT SUM(m) / COUNT(*) FROM t
SELECT AVG(m) * 2 FROM t
SELECT SUM(m) * 2 FROM t
SELECT SUM(i) / COUNT(*) FROM t WHERE i BETWEEN -1000 AND 1000
SELECT SUM(d) FROM t WHERE d BETWEEN -10 AND 10 AND id IN (0, 2, 3, 4, 5)
SELECT AVG(d) FROM t WHERE id IN (0, 2, 3, 4, 5)
SELECT SUM(f), AVG(f) FROM t WHERE id IN (0, 2, 3, 12, 13)
SELECT SUM(f) FROM t WHERE id IN (8, 18)
SELECT MIN(d), MAX(d) FROM t WHERE d = d OR d <> d
SELECT MIN(d), MAX(d) FROM t WHERE id <> 6
SELECT MIN(f), MAX(f) FROM t WHERE id <> 4
SELECT SUM(d) FROM t WHERE id IN (6, 2)
SELECT MIN(s), MAX(s), MIN(p), MAX(p) FROM t
SELECT MIN(dt), MAX(dt), MIN(ts), MAX(ts), MIN(ltz), MAX(ltz) FROM t
SELECT MIN(flag), MAX(flag) FROM t
SELECT STDDEV_POP(d), VAR_POP(d) FROM t WHERE id IN (0, 2, 3, 4)
SELECT APPROX_COUNT_DISTINCT(k) FROM t
SELECT COUNT(*) FILTER (WHERE i > 0), SUM(h) FILTER (WHERE k = 'x'), AVG(h) FILTER (WHERE k = 'none') FROM t
SELECT COUNT(CASE WHEN i > 0 THEN 1 END), SUM(CASE WHEN i > 0 THEN 1 ELSE 0 END) FROM t
SELECT k, COUNT(*) FROM t GROUP BY k HAVING COUNT(*) > 3
SELECT k, SUM(h) FROM t GROUP BY k HAVING SUM(h) > 3
SELECT k, SUM(h) FROM t GROUP BY k HAVING SUM(h) IS NULL
SELECT COUNT(*) FROM t HAVING COUNT(*) > 100
SELECT COUNT(*) FROM t WHERE id < 0 HAVING COUNT(*) > 0
SELECT d, COUNT(*) FROM t WHERE id IN (0, 1, 6) GROUP BY d
SELECT h, COUNT(*) FROM t GROUP BY h
SELECT flag, k, COUNT(*) FROM t GROUP BY flag, k
SELECT UPPER(k) || '!', COUNT(*) + 1 FROM t GROUP BY k
SELECT UPPER(k), COUNT(*) FROM t GROUP BY UPPER(k)

-- == rows
SELECT id, i FROM t WHERE i > 2
SELECT id FROM t WHERE NOT (h > 1)
SELECT id FROM t WHERE h NOT IN (1, NULL)
SELECT id FROM t WHERE d > 1
SELECT id FROM t WHERE flag
SELECT id, m FROM t WHERE id < 2 UNION ALL SELECT id, n FROM t WHERE id < 2
SELECT id, i FROM t WHERE id < 2 UNION ALL SELECT id, m FROM t WHERE id < 2
SELECT id, s FROM t WHERE id < 2 UNION ALL SELECT id, k FROM t WHERE id < 2
SELECT a.id, b.id FROM t a JOIN t b ON a.h = b.h AND a.id < b.id
SELECT a.id, b.id FROM t a JOIN t b ON a.d = b.d AND a.id < 10 AND b.id < 10

-- == windows
SELECT window_start, window_end, window_time, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(et), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, window_time
SELECT window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(et), INTERVAL '1' DAY)) GROUP BY window_start, window_end
SELECT window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(et), INTERVAL '7' DAY)) GROUP BY window_start, window_end
SELECT window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(et), INTERVAL '7' SECOND)) GROUP BY window_start, window_end
SELECT window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(et), INTERVAL '1' DAY, INTERVAL '8' HOUR)) GROUP BY window_start, window_end
SELECT window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(et), INTERVAL '1' MINUTE, INTERVAL '-10' SECOND)) GROUP BY window_start, window_end
SELECT window_start, window_end, k, COUNT(*), SUM(h) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(et), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, k
SELECT window_start, window_end, COUNT(*) FROM TABLE(HOP(TABLE t, DESCRIPTOR(et), INTERVAL '30' SECOND, INTERVAL '1' MINUTE)) GROUP BY window_start, window_end
SELECT window_start, window_end, COUNT(*) FROM TABLE(HOP(TABLE t, DESCRIPTOR(et), INTERVAL '7' SECOND, INTERVAL '21' SECOND)) GROUP BY window_start, window_end
SELECT window_start, window_end, COUNT(*) FROM TABLE(HOP(TABLE t, DESCRIPTOR(et), INTERVAL '30' SECOND, INTERVAL '1' MINUTE, INTERVAL '10' SECOND)) GROUP BY window_start, window_end
SELECT window_start, window_end, COUNT(*) FROM TABLE(HOP(TABLE t, DESCRIPTOR(et), INTERVAL '1' DAY, INTERVAL '7' DAY)) GROUP BY window_start, window_end
SELECT k, window_start, window_end, window_time, COUNT(*) FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(et), INTERVAL '30' SECOND)) GROUP BY k, window_start, window_end, window_time
SELECT flag, window_start, window_end, COUNT(*) FROM TABLE(SESSION(TABLE t PARTITION BY flag, DESCRIPTOR(et), INTERVAL '30' MINUTE)) GROUP BY flag, window_start, window_end
SELECT TUMBLE_START(et, INTERVAL '1' MINUTE), TUMBLE_END(et, INTERVAL '1' MINUTE), TUMBLE_ROWTIME(et, INTERVAL '1' MINUTE), COUNT(*) FROM t GROUP BY TUMBLE(et, INTERVAL '1' MINUTE)
SELECT HOP_START(et, INTERVAL '30' SECOND, INTERVAL '1' MINUTE), HOP_END(et, INTERVAL '30' SECOND, INTERVAL '1' MINUTE), COUNT(*) FROM t GROUP BY HOP(et, INTERVAL '30' SECOND, INTERVAL '1' MINUTE)
SELECT k, SESSION_START(et, INTERVAL '30' SECOND), SESSION_END(et, INTERVAL '30' SECOND), COUNT(*) FROM t GROUP BY k, SESSION(et, INTERVAL '30' SECOND)
SELECT window_start, id, rn FROM (SELECT window_start, id, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY h DESC, id) AS rn FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(et), INTERVAL '1' HOUR))) WHERE rn <= 2
SELECT window_start, id, rn FROM (SELECT window_start, id, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY h ASC, id ASC) AS rn FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(et), INTERVAL '1' HOUR))) WHERE rn <= 2
SELECT window_start, id, rn FROM (SELECT window_start, id, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY d DESC, id DESC) AS rn FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(et), INTERVAL '1' HOUR))) WHERE rn = 1
SELECT a.id, b.id FROM t a JOIN t b ON a.k = b.k AND a.id <> b.id AND a.et BETWEEN b.et - INTERVAL '1' MINUTE AND b.et
SELECT window_start, window_end, SUM(n) FROM TABLE(TUMBLE(TABLE minutes, DESCRIPTOR(rowtime), INTERVAL '1' HOUR)) GROUP BY window_start, window_end
