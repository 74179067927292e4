-- What the statements of the other files speak of.
CREATE TABLE bids (
    auction BIGINT,
    bidder STRING,
    price DECIMAL(10, 2),
    item STRING,
    bid_time TIMESTAMP(3),
    WATERMARK FOR bid_time AS bid_time - INTERVAL '5' SECOND
) WITH (
    'connector' = 'kafka', 'topic' = 'bids', 'properties.bootstrap.servers' = 'localhost:9092',
    'scan.startup.mode' = 'earliest-offset', 'format' = 'json'
);
CREATE TABLE asks (
    auction BIGINT,
    seller STRING,
    price DECIMAL(10, 2),
    ask_time TIMESTAMP_LTZ(3),
    WATERMARK FOR ask_time AS ask_time - INTERVAL '5' SECOND
) WITH (
    'connector' = 'kafka', 'topic' = 'asks', 'properties.bootstrap.servers' = 'localhost:9092',
    'scan.startup.mode' = 'earliest-offset', 'format' = 'json'
);
CREATE TABLE things (
    flag BOOLEAN, tiny TINYINT, small SMALLINT, whole INT, big BIGINT, half FLOAT, whole_d DOUBLE, money DECIMAL(18, 2),
    name STRING, bytes_ BYTES, born DATE, moment TIMESTAMP(3), instant TIMESTAMP_LTZ(3), list ARRAY<INT>,
    pairs MAP<STRING, INT>, nested ROW<a INT, b ROW<c STRING>>
) WITH (
    'connector' = 'kafka', 'topic' = 'things', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json'
);
CREATE TABLE counts (auction BIGINT, n BIGINT) WITH (
    'connector' = 'kafka', 'topic' = 'counts', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json'
);
CREATE TABLE latest (auction BIGINT, n BIGINT, PRIMARY KEY (auction) NOT ENFORCED) WITH (
    'connector' = 'upsert-kafka', 'topic' = 'latest', 'properties.bootstrap.servers' = 'localhost:9092',
    'key.format' = 'json', 'value.format' = 'json'
);
CREATE TABLE sellers (seller STRING, town STRING) WITH (
    'connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost/shop', 'table-name' = 'sellers'
);
CREATE VIEW big_bids AS SELECT * FROM bids WHERE price > 100;
CREATE VIEW minutes AS
SELECT window_start, window_end, window_time AS rowtime, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, window_time;
CREATE TABLE bids_seen (
    auction BIGINT, bidder STRING, seen AS PROCTIME()
) WITH (
    'connector' = 'kafka', 'topic' = 'bids', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json'
);
CREATE TABLE tops (auction BIGINT, place BIGINT, price DECIMAL(10, 2), PRIMARY KEY (auction, place) NOT ENFORCED) WITH (
    'connector' = 'upsert-kafka', 'topic' = 'tops', 'properties.bootstrap.servers' = 'localhost:9092',
    'key.format' = 'json', 'value.format' = 'json'
);
CREATE TABLE shared (a INT) WITH (
    'connector' = 'kafka', 'topic' = 'shared', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json',
    'sink.partitioner' = 'round-robin'
);
CREATE VIEW timed AS SELECT auction, PROCTIME() AS p_time FROM bids;
