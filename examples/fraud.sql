-- Real-time transaction risk control: one alert for each user with more than ten payments in a one-minute window.

SET 'execution.checkpointing.interval' = '1s';
SET 'pipeline.name' = 'fraud-alerts';

CREATE TABLE transactions (
    user_id STRING,
    amount DECIMAL(18, 2),
    event_time TIMESTAMP_LTZ(3),
    WATERMARK FOR event_time AS event_time - INTERVAL '10' SECOND
) WITH (
    'connector' = 'kafka',
    'topic' = 'transactions',
    'properties.bootstrap.servers' = 'localhost:9092',
    'scan.startup.mode' = 'earliest-offset',
    'format' = 'json',
    'json.timestamp-format.standard' = 'ISO-8601',
    'json.ignore-parse-errors' = 'true'
);

CREATE TABLE alerts (
    `window` ROW<`start` TIMESTAMP_LTZ(3), `end` TIMESTAMP_LTZ(3)>,
    user_id STRING,
    transactions BIGINT,
    total DECIMAL(38, 2)
) WITH (
    'connector' = 'kafka',
    'topic' = 'alerts',
    'properties.bootstrap.servers' = 'localhost:9092',
    'key.format' = 'raw',
    'key.fields' = 'user_id',
    'format' = 'json',
    'json.timestamp-format.standard' = 'ISO-8601',
    'sink.delivery-guarantee' = 'exactly-once',
    'sink.transactional-id-prefix' = 'onceflow'
);

INSERT INTO alerts
SELECT
    ROW(window_start, window_end),
    user_id,
    COUNT(*),
    SUM(amount)
FROM TABLE(TUMBLE(TABLE transactions, DESCRIPTOR(event_time), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, user_id
HAVING COUNT(*) > 10;
