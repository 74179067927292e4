-- runs
SELECT * FROM bids;
-- runs
SELECT b.*, b.price * 2 AS twice FROM bids AS b WHERE b.price > 10 AND item IS NOT NULL;
-- runs
SELECT auction, price FROM (SELECT * FROM bids WHERE price > 1) AS x WHERE auction = 1;
-- runs
WITH dear AS (SELECT * FROM bids WHERE price > 100) SELECT auction FROM dear;
-- runs
SELECT auction, price FROM bids UNION ALL SELECT auction, price FROM asks;
-- runs
SELECT window_start, window_end, auction, COUNT(*) AS n, SUM(price) AS total FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, auction;
-- runs
SELECT window_start, window_end, MAX(price) AS dearest FROM TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' MINUTE) GROUP BY window_start, window_end;
-- runs
SELECT window_start, window_end, window_time, COUNT(*) FROM TABLE(TUMBLE(DATA => TABLE bids, TIMECOL => DESCRIPTOR(bid_time), SIZE => INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, window_time;
-- runs
SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '1' DAY, INTERVAL '8' HOUR)) GROUP BY window_start, window_end;
-- runs
SELECT auction, window_start, COUNT(*) FROM TABLE(HOP(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES)) GROUP BY auction, window_start, window_end;
-- runs
SELECT auction, COUNT(*) FROM HOP(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '1' SECOND, INTERVAL '10' SECOND) GROUP BY window_start, window_end, auction HAVING COUNT(*) > 2;
-- runs
SELECT bidder, window_start, window_end, COUNT(*) FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(bid_time), INTERVAL '5' MINUTES)) GROUP BY bidder, window_start, window_end;
-- runs
SELECT bidder, COUNT(*) FROM SESSION(DATA => TABLE bids PARTITION BY bidder, TIMECOL => DESCRIPTOR(bid_time), GAP => INTERVAL '5' MINUTES) GROUP BY window_start, window_end, bidder;
-- runs
SELECT window_start, window_end, auction, price FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' MINUTES));
-- runs
SELECT auction, TUMBLE_START(bid_time, INTERVAL '1' MINUTE), TUMBLE_END(bid_time, INTERVAL '1' MINUTE), COUNT(*) FROM bids GROUP BY TUMBLE(bid_time, INTERVAL '1' MINUTE), auction;
-- runs
SELECT auction, HOP_START(bid_time, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE) AS s, SUM(price) FROM bids GROUP BY HOP(bid_time, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE), auction;
-- runs
SELECT bidder, SESSION_END(bid_time, INTERVAL '1' MINUTE), COUNT(*) FROM bids GROUP BY SESSION(bid_time, INTERVAL '1' MINUTE), bidder;
-- runs
SELECT window_start, window_end, SUM(n) FROM TABLE(TUMBLE(TABLE minutes, DESCRIPTOR(rowtime), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
-- runs
SELECT auction, COUNT(*), SUM(price), AVG(price), MIN(price), MAX(price) FROM bids GROUP BY auction;
-- runs
SELECT COUNT(*) FROM bids;
-- runs
SELECT auction, COUNT(*) FILTER (WHERE price > 10) AS dear, APPROX_COUNT_DISTINCT(bidder) FROM bids GROUP BY auction;
-- runs
SELECT UPPER(item), COUNT(*) + 1 FROM bids GROUP BY UPPER(item) HAVING MAX(price) > 5;
-- runs
SELECT b.auction, a.seller FROM bids AS b JOIN asks AS a ON b.auction = a.auction AND a.ask_time BETWEEN b.bid_time - INTERVAL '4' HOUR AND b.bid_time;
-- runs
SELECT b.auction, a.seller FROM bids b LEFT JOIN asks a ON b.auction = a.auction AND a.ask_time >= b.bid_time - INTERVAL '1' HOUR AND a.ask_time <= b.bid_time;
-- runs
SELECT b.auction, a.seller FROM bids b INNER JOIN asks a ON b.auction = a.auction;
-- runs
SELECT l.auction, l.price, r.price FROM (SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '5' MINUTES))) l JOIN (SELECT * FROM TABLE(TUMBLE(TABLE asks, DESCRIPTOR(ask_time), INTERVAL '5' MINUTES))) r ON l.auction = r.auction AND l.window_start = r.window_start AND l.window_end = r.window_end;
-- runs
SELECT b.auction, s.town FROM bids AS b JOIN sellers AS s ON b.bidder = s.seller;
-- runs
SELECT b.auction, s.town FROM bids_seen AS b LEFT JOIN sellers FOR SYSTEM_TIME AS OF b.seen AS s ON b.bidder = s.seller;
-- runs
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rn FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' MINUTES))) WHERE rn <= 3;
-- runs
SELECT window_start, bidder, total FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC, bidder DESC) AS rn FROM (SELECT window_start, window_end, bidder, SUM(price) AS total FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, bidder)) WHERE rn <= 3;
-- runs
SELECT auction, bidder FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY bid_time ASC) AS rn FROM bids) WHERE rn = 1;
-- runs
SELECT auction AS `order`, `item` FROM bids;
-- runs
SELECT CASE WHEN price > 10 THEN 'dear' ELSE 'cheap' END, CASE auction WHEN 1 THEN 'one' END FROM bids;
-- runs
SELECT bid_time + INTERVAL '1' DAY, bid_time - INTERVAL '1' MONTH FROM bids WHERE bid_time > TIMESTAMP '2026-01-01 00:00:00';
-- runs
SELECT pairs['a'], list[1], nested.a, things.nested.b.c FROM things;
-- runs
SELECT ARRAY[1, 2], MAP['a', 1], ROW(1, 'x') FROM things;
-- runs
SELECT whole / 2, whole % 3, MOD(whole, 3), big / small, money / 3, whole_d / 2, - whole FROM things;
-- runs
SELECT CAST(whole AS STRING), CAST(moment AS STRING), TRY_CAST(name AS INT), CAST(name AS DECIMAL(10, 2)), CAST(moment AS DATE), CAST(name AS TIMESTAMP(3)) FROM things;
-- runs
SELECT name || 'x', name LIKE 'a%', name NOT LIKE '%b', name LIKE '10/%' ESCAPE '/', whole IN (1, 2), whole NOT IN (3), whole BETWEEN 1 AND 5 FROM things;
-- runs
SELECT flag IS TRUE, flag IS NOT FALSE, flag IS UNKNOWN, name IS NULL, whole IS DISTINCT FROM tiny, whole IS NOT DISTINCT FROM tiny, NOT flag FROM things;
-- refused: MATCH_RECOGNIZE
SELECT * FROM bids MATCH_RECOGNIZE (PARTITION BY auction ORDER BY bid_time MEASURES A.price AS p PATTERN (A B) DEFINE A AS A.price > 1);
-- refused: a temporal join
SELECT b.auction FROM bids AS b JOIN asks FOR SYSTEM_TIME AS OF b.bid_time AS a ON b.auction = a.auction;
-- refused: CUMULATE
SELECT window_start, COUNT(*) FROM TABLE(CUMULATE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES)) GROUP BY window_start, window_end;
-- refused: ORDER BY
SELECT * FROM bids ORDER BY bid_time;
-- refused: LIMIT
SELECT * FROM bids LIMIT 10;
-- refused: FETCH
SELECT * FROM bids FETCH FIRST 10 ROWS ONLY;
-- refused: SELECT DISTINCT
SELECT DISTINCT auction FROM bids;
-- refused: UNION
SELECT auction FROM bids UNION SELECT auction FROM asks;
-- refused: INTERSECT
SELECT auction FROM bids INTERSECT SELECT auction FROM asks;
-- refused: EXCEPT
SELECT auction FROM bids EXCEPT SELECT auction FROM asks;
-- refused: COUNT(DISTINCT …)
SELECT auction, COUNT(DISTINCT bidder) FROM bids GROUP BY auction;
-- runs
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rn FROM bids) WHERE rn <= 3;
-- runs
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY bid_time DESC) AS rn FROM bids) WHERE rn = 1;
-- refused: ROW_NUMBER without a bound
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY bid_time) AS rn FROM bids);
-- refused: RANK OVER
SELECT * FROM (SELECT *, RANK() OVER (PARTITION BY auction ORDER BY price) AS rn FROM bids) WHERE rn = 1;
-- refused: OVER
SELECT auction, SUM(price) OVER (PARTITION BY auction ORDER BY bid_time) FROM bids;
-- refused: OVER with ROWS or RANGE
SELECT SUM(price) OVER (PARTITION BY auction ORDER BY bid_time ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM bids;
-- refused: an outer join without times
SELECT b.auction FROM bids b LEFT JOIN asks a ON b.auction = a.auction;
-- runs
SELECT a.auction FROM bids b, asks a WHERE a.auction = b.auction AND a.ask_time BETWEEN b.bid_time - INTERVAL '1' HOUR AND b.bid_time;
-- runs
SELECT a.auction FROM bids b JOIN asks a ON a.auction = b.auction WHERE a.ask_time BETWEEN b.bid_time - INTERVAL '1' HOUR AND b.bid_time AND a.seller <> 'x';
-- refused: a join without a condition
SELECT b.auction FROM bids b, asks a;
-- runs
SELECT b.auction FROM bids b, asks a WHERE b.auction = a.auction;
-- refused: CROSS JOIN
SELECT b.auction FROM bids b CROSS JOIN asks a;
-- refused: UNNEST
SELECT name, x FROM things CROSS JOIN UNNEST(list) AS t (x);
-- refused: LATERAL
SELECT name, x FROM things, LATERAL TABLE(split(name)) AS t (x);
-- refused: USING
SELECT b.bidder FROM bids b JOIN asks a USING (auction);
-- refused: IN with a query
SELECT * FROM bids WHERE auction IN (SELECT auction FROM asks);
-- refused: EXISTS
SELECT * FROM bids b WHERE EXISTS (SELECT 1 FROM asks a WHERE a.auction = b.auction);
-- refused: GROUPING SETS
SELECT auction, bidder, COUNT(*) FROM bids GROUP BY GROUPING SETS ((auction), (bidder));
-- refused: ROLLUP
SELECT auction, bidder, COUNT(*) FROM bids GROUP BY ROLLUP (auction, bidder);
-- refused: CUBE
SELECT auction, bidder, COUNT(*) FROM bids GROUP BY CUBE (auction, bidder);
-- refused: GROUP BY of a part of a window
SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '1' MINUTE)) GROUP BY window_start;
-- refused: SESSION over all rows
SELECT COUNT(*) FROM TABLE(SESSION(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '5' MINUTES)) GROUP BY window_start, window_end;
-- refused: an aggregation over one that updates
SELECT SUM(n) FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction);
-- refused: a join of a query that updates
SELECT x.n FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction) x JOIN asks a ON x.auction = a.auction;
-- refused: reading latest, an upsert-kafka table,
SELECT * FROM latest;
-- refused: SELECT without FROM
SELECT 1;
-- refused: VALUES
VALUES (1, 2);
-- refused: a hint
SELECT * FROM bids /*+ OPTIONS('scan.startup.mode' = 'latest-offset') */;
-- refused: an interval in MONTH
SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '1' MONTH)) GROUP BY window_start, window_end;
-- refused: TABLESAMPLE
SELECT * FROM bids TABLESAMPLE BERNOULLI (10);
-- refused: a name with a catalogue
SELECT * FROM default_catalog.default_database.bids;
-- rejected
SELECT FROM bids;
-- rejected
SELECT * FORM bids;
-- rejected
SELECT auction price item FROM bids;
-- rejected
SELECT auction, FROM bids;
-- rejected
SELECT auction FROM bids WHERE;
-- rejected
SELECT "auction" FROM bids;
-- rejected
SELECT auction::INT FROM bids;
-- rejected
SELECT auction FROM bids GROUP auction;
-- rejected
SELECT value FROM bids;
-- rejected
SELECT auction AS end FROM bids;
-- rejected
SELECT * EXCEPT (price) FROM bids;
-- rejected
SELECT CAST(auction INT) FROM bids;
-- rejected
SELECT 'abc FROM bids;
-- rejected
SELECT COUNT(* FROM bids;
-- rejected
SELECT auction FROM bids WHERE price BETWEEN 1;
-- rejected
SELECT CASE WHEN price > 1 THEN 2 FROM bids;
-- rejected
SELECT auction FROM bids JOIN ON 1 = 1;
-- rejected
SELECT SAFE CAST(1 AS INT) FROM bids;
-- unknown
SELECT nothing FROM bids;
-- unknown
SELECT auction FROM nowhere;
-- unknown
SELECT NO_SUCH(auction) FROM bids;
-- unknown
SELECT auction + item FROM bids;
-- unknown
SELECT auction, price FROM bids GROUP BY auction;
-- runs
SELECT * FROM (SELECT ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rn, * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' MINUTES))) WHERE rn <= 3;
-- runs
SELECT * FROM (SELECT auction, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rn, bidder, window_start, window_end FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' MINUTES))) WHERE rn <= 3;
-- refused: ROW_NUMBER between two *
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rn, * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' MINUTES))) WHERE rn <= 3;
-- runs
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC, auction ASC) AS rn FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' MINUTES))) WHERE rn <= 3;
-- runs
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC NULLS LAST, auction DESC) AS rn FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' MINUTES))) WHERE rn <= 3;
-- refused: NULLS FIRST and NULLS LAST
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC NULLS FIRST) AS rn FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' MINUTES))) WHERE rn <= 3;
-- refused: NULLS FIRST and NULLS LAST
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price ASC NULLS LAST) AS rn FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' MINUTES))) WHERE rn <= 3;
-- refused: LIMIT
(SELECT * FROM bids) LIMIT 5;
-- refused: ORDER BY
(SELECT auction FROM bids) ORDER BY auction;
-- rejected
SELECT * FROM ((SELECT auction FROM bids) LIMIT 5) AS x;
-- refused: LIMIT
SELECT auction FROM bids UNION ALL ((SELECT auction FROM asks) LIMIT 5);
-- refused: FETCH
(SELECT * FROM bids) FETCH FIRST 5 ROWS ONLY;
-- refused: LIMIT
(SELECT * FROM bids) OFFSET 5 ROWS;
-- refused: a window over the window_time of a SESSION
WITH visits AS (SELECT bidder, window_time, COUNT(*) AS n FROM SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(bid_time), INTERVAL '5' MINUTES) GROUP BY bidder, window_start, window_end, window_time) SELECT window_start, COUNT(*) FROM TUMBLE(TABLE visits, DESCRIPTOR(window_time), INTERVAL '1' HOUR) GROUP BY window_start, window_end;
-- refused: names for columns behind ROW_NUMBER
SELECT * FROM (SELECT auction, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY bid_time) AS rn FROM bids) AS x (rn, a) WHERE rn <= 1;
-- runs
INSERT INTO latest SELECT auction, CAST(price AS BIGINT) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY bid_time DESC) AS rn FROM bids) WHERE rn = 1;
-- runs
INSERT INTO latest SELECT a, CAST(price AS BIGINT) FROM (SELECT price, auction AS a, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY bid_time DESC) AS rn FROM bids) WHERE rn = 1;
-- runs
INSERT INTO latest SELECT auction, n FROM (SELECT b.auction, CAST(b.price AS BIGINT) AS n, ROW_NUMBER() OVER (PARTITION BY b.auction ORDER BY b.price DESC, b.bid_time ASC) AS rn FROM bids b JOIN asks a ON a.auction = b.auction AND b.bid_time BETWEEN a.ask_time AND a.ask_time + INTERVAL '1' HOUR) WHERE rn <= 1;
-- refused: a PRIMARY KEY (auction) of rows known by (something else)
INSERT INTO latest SELECT auction, n FROM (SELECT auction, CAST(price AS BIGINT) AS n, ROW_NUMBER() OVER (PARTITION BY bidder ORDER BY bid_time DESC) AS rn FROM bids) WHERE rn = 1;
-- refused: a PRIMARY KEY (auction) of rows known by (something else)
INSERT INTO latest SELECT auction, CAST(price AS BIGINT) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rn FROM bids) WHERE rn <= 3;
-- runs
INSERT INTO tops SELECT auction, rn, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rn FROM bids) WHERE rn <= 10;
-- refused: the first 1000 of a key without a window
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rn FROM bids) WHERE rn <= 1000;
-- refused: ROW_NUMBER by processing time
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY seen DESC) AS rn FROM bids_seen) WHERE rn = 1;
-- refused: ROW_NUMBER by processing time
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY at_ DESC) AS rn FROM (SELECT *, PROCTIME() AS at_ FROM bids)) WHERE rn = 1;
-- refused: a top-N of a query that updates
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY n DESC) AS rn FROM (SELECT auction, bidder, COUNT(*) AS n FROM bids GROUP BY auction, bidder)) WHERE rn <= 3;
-- refused: TUMBLE over seen, which is processing time,
SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE bids_seen, DESCRIPTOR(seen), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- refused: TUMBLE over p_time, which is processing time,
SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(p_time), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
