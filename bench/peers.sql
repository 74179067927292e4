-- What Flink and onceflow both run, word for word: only the brokers' address is another.
SET 'execution.checkpointing.interval' = '2s';
SET 'table.local-time-zone' = 'UTC';
SET 'onceflow.source.max-ahead' = 'none';

CREATE TABLE bids (
    auction BIGINT,
    bidder STRING,
    price DECIMAL(10, 2),
    bid_time TIMESTAMP(3),
    WATERMARK FOR bid_time AS bid_time - INTERVAL '5' SECOND
) WITH (
    'connector' = 'kafka', 'topic' = 'bids', 'properties.bootstrap.servers' = 'kafka:9092',
    'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json'
);

CREATE TABLE asks (
    auction BIGINT,
    seller STRING,
    ask_time TIMESTAMP(3),
    WATERMARK FOR ask_time AS ask_time - INTERVAL '5' SECOND
) WITH (
    'connector' = 'kafka', 'topic' = 'asks', 'properties.bootstrap.servers' = 'kafka:9092',
    'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json'
);

CREATE TABLE tumbled (s TIMESTAMP(3), e TIMESTAMP(3), t TIMESTAMP(3), bidder STRING, n BIGINT, total DECIMAL(38, 2), mean DECIMAL(38, 6), halves BIGINT) WITH (
    'connector' = 'kafka', 'topic' = 'tumbled', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json',
    'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'peers-tumbled', 'properties.transaction.timeout.ms' = '600000'
);

CREATE TABLE hopped (s TIMESTAMP(3), bidder STRING, n BIGINT) WITH (
    'connector' = 'kafka', 'topic' = 'hopped', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json',
    'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'peers-hopped', 'properties.transaction.timeout.ms' = '600000'
);

CREATE TABLE sessions (bidder STRING, s TIMESTAMP(3), e TIMESTAMP(3), n BIGINT) WITH (
    'connector' = 'kafka', 'topic' = 'sessions', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json',
    'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'peers-sessions', 'properties.transaction.timeout.ms' = '600000'
);

CREATE TABLE top (s TIMESTAMP(3), bidder STRING, total DECIMAL(38, 2), rn BIGINT) WITH (
    'connector' = 'kafka', 'topic' = 'top', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json',
    'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'peers-top', 'properties.transaction.timeout.ms' = '600000'
);

CREATE TABLE firsts (auction BIGINT, bidder STRING, bid_time TIMESTAMP(3)) WITH (
    'connector' = 'kafka', 'topic' = 'firsts', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json',
    'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'peers-firsts', 'properties.transaction.timeout.ms' = '600000'
);

CREATE TABLE near (bidder STRING, seller STRING, bid_time TIMESTAMP(3), ask_time TIMESTAMP(3)) WITH (
    'connector' = 'kafka', 'topic' = 'near', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json',
    'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'peers-near', 'properties.transaction.timeout.ms' = '600000'
);

CREATE TABLE texts (bid_time TIMESTAMP(3), a STRING, b STRING, c INT, d STRING, f BIGINT) WITH (
    'connector' = 'kafka', 'topic' = 'texts', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json',
    'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'peers-texts', 'properties.transaction.timeout.ms' = '600000'
);

EXECUTE STATEMENT SET BEGIN

INSERT INTO tumbled
SELECT window_start, window_end, window_time, bidder, COUNT(*), SUM(price), AVG(price), COUNT(*) / 2
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, window_time, bidder;

INSERT INTO hopped
SELECT window_start, bidder, COUNT(*)
FROM TABLE(HOP(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '5' SECOND, INTERVAL '10' SECOND))
GROUP BY window_start, window_end, bidder;

INSERT INTO sessions
SELECT bidder, window_start, window_end, COUNT(*)
FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(bid_time), INTERVAL '2' SECOND))
GROUP BY bidder, window_start, window_end;

INSERT INTO top
SELECT window_start, bidder, total, rn FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC, bidder DESC) AS rn FROM (
        SELECT window_start, window_end, bidder, SUM(price) AS total
        FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end, bidder
    )
) WHERE rn <= 3;

INSERT INTO firsts
SELECT auction, bidder, bid_time FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY bid_time ASC) AS rn FROM bids
) WHERE rn = 1;

INSERT INTO near
SELECT b.bidder, a.seller, b.bid_time, CAST(a.ask_time AS TIMESTAMP(3))
FROM bids b JOIN asks a
ON b.auction = a.auction AND a.ask_time BETWEEN b.bid_time - INTERVAL '3' SECOND AND b.bid_time;

INSERT INTO texts
SELECT
    bid_time,
    CAST(bid_time AS STRING),
    REGEXP_EXTRACT(bidder, 'b-([0-9])$', 1),
    CAST(auction AS INT) / 3,
    CASE WHEN price > 50 THEN UPPER(bidder) ELSE SUBSTRING(bidder, 3) END,
    EXTRACT(SECOND FROM bid_time)
FROM bids WHERE bidder LIKE 'b-%' AND MOD(auction, 2) = 1;

END;
