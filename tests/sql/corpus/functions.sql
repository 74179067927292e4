-- runs
SELECT ABS(whole) FROM things;
-- runs
SELECT ABS(money) FROM things;
-- runs
SELECT CEIL(money) FROM things;
-- runs
SELECT CEIL(whole_d) FROM things;
-- runs
SELECT CEILING(money) FROM things;
-- runs
SELECT FLOOR(whole_d) FROM things;
-- runs
SELECT ROUND(money, 1) FROM things;
-- runs
SELECT SIGN(whole) FROM things;
-- runs
SELECT SQRT(whole_d) FROM things;
-- runs
SELECT POWER(whole_d, 2) FROM things;
-- runs
SELECT EXP(whole_d) FROM things;
-- runs
SELECT MOD(big, 7) FROM things;
-- runs
SELECT GREATEST(whole, tiny) FROM things;
-- runs
SELECT LEAST(whole, big) FROM things;
-- runs
SELECT UPPER(name) FROM things;
-- runs
SELECT LOWER(name) FROM things;
-- runs
SELECT TRIM(name) FROM things;
-- runs
SELECT TRIM(BOTH 'x' FROM name) FROM things;
-- runs
SELECT TRIM(LEADING ' ' FROM name) FROM things;
-- runs
SELECT LTRIM(name) FROM things;
-- runs
SELECT RTRIM(name) FROM things;
-- runs
SELECT CHAR_LENGTH(name) FROM things;
-- runs
SELECT CHARACTER_LENGTH(name) FROM things;
-- runs
SELECT SUBSTRING(name, 2) FROM things;
-- runs
SELECT SUBSTRING(name FROM 2 FOR 3) FROM things;
-- runs
SELECT SUBSTR(name, 1, 2) FROM things;
-- runs
SELECT CONCAT(name, '-', name) FROM things;
-- runs
SELECT CONCAT_WS('-', name, name) FROM things;
-- runs
SELECT REPLACE(name, 'a', 'b') FROM things;
-- runs
SELECT REVERSE(name) FROM things;
-- runs
SELECT LPAD(name, 5, '0') FROM things;
-- runs
SELECT RPAD(name, 5, '0') FROM things;
-- runs
SELECT REPEAT(name, 2) FROM things;
-- runs
SELECT POSITION('a' IN name) FROM things;
-- runs
SELECT LOCATE('a', name) FROM things;
-- runs
SELECT INSTR(name, 'a') FROM things;
-- runs
SELECT LEFT(name, 2) FROM things;
-- runs
SELECT RIGHT(name, 2) FROM things;
-- runs
SELECT REGEXP_REPLACE(name, '[0-9]', '') FROM things;
-- runs
SELECT REGEXP_EXTRACT(name, '([a-z]+)', 1) FROM things;
-- runs
SELECT REGEXP(name, 'a+') FROM things;
-- runs
SELECT SPLIT_INDEX(name, ',', 0) FROM things;
-- runs
SELECT MD5(name) FROM things;
-- runs
SELECT SHA1(name) FROM things;
-- runs
SELECT SHA256(name) FROM things;
-- runs
SELECT ASCII(name) FROM things;
-- runs
SELECT TO_BASE64(name) FROM things;
-- runs
SELECT JSON_VALUE(name, '$.a') FROM things;
-- runs
SELECT COALESCE(name, 'x') FROM things;
-- runs
SELECT NULLIF(whole, 0) FROM things;
-- runs
SELECT IF(flag, 1, 2) FROM things;
-- runs
SELECT IFNULL(name, 'x') FROM things;
-- runs
SELECT CARDINALITY(list) FROM things;
-- runs
SELECT CARDINALITY(pairs) FROM things;
-- runs
SELECT ARRAY_CONTAINS(list, 1) FROM things;
-- runs
SELECT MAP_KEYS(pairs) FROM things;
-- runs
SELECT MAP_VALUES(pairs) FROM things;
-- runs
SELECT TO_TIMESTAMP(name) FROM things;
-- runs
SELECT TO_TIMESTAMP(name, 'yyyy-MM-dd HH:mm:ss') FROM things;
-- runs
SELECT TO_TIMESTAMP_LTZ(big, 3) FROM things;
-- runs
SELECT TO_TIMESTAMP_LTZ(big, 0) FROM things;
-- runs
SELECT TO_DATE(name) FROM things;
-- runs
SELECT DATE_FORMAT(moment, 'yyyy-MM-dd HH:mm') FROM things;
-- runs
SELECT EXTRACT(YEAR FROM moment) FROM things;
-- runs
SELECT EXTRACT(SECOND FROM moment) FROM things;
-- runs
SELECT YEAR(born) FROM things;
-- runs
SELECT QUARTER(born) FROM things;
-- runs
SELECT MONTH(born) FROM things;
-- runs
SELECT WEEK(born) FROM things;
-- runs
SELECT DAYOFMONTH(born) FROM things;
-- runs
SELECT DAYOFWEEK(born) FROM things;
-- runs
SELECT DAYOFYEAR(born) FROM things;
-- runs
SELECT HOUR(moment) FROM things;
-- runs
SELECT MINUTE(moment) FROM things;
-- runs
SELECT SECOND(moment) FROM things;
-- runs
SELECT FLOOR(moment TO HOUR) FROM things;
-- runs
SELECT TIMESTAMPADD(DAY, 1, moment) FROM things;
-- runs
SELECT TIMESTAMPDIFF(MINUTE, moment, instant) FROM things;
-- runs
SELECT CURRENT_TIMESTAMP FROM things;
-- runs
SELECT CURRENT_DATE FROM things;
-- runs
SELECT LOCALTIMESTAMP FROM things;
-- runs
SELECT NOW() FROM things;
-- runs
SELECT PROCTIME() FROM things;
-- runs
SELECT FROM_UNIXTIME(big) FROM things;
-- runs
SELECT DATE '2026-01-01' FROM things;
-- runs
SELECT TIMESTAMP '2026-01-01 00:00:00.5' FROM things;
-- refused: UUID
SELECT UUID() FROM things;
-- refused: RAND
SELECT RAND() FROM things;
-- refused: UNIX_TIMESTAMP
SELECT UNIX_TIMESTAMP() FROM things;
-- refused: CURRENT_WATERMARK
SELECT CURRENT_WATERMARK(moment) FROM things;
-- refused: LN
SELECT LN(whole_d) FROM things;
-- refused: LOG10
SELECT LOG10(whole_d) FROM things;
-- refused: LISTAGG
SELECT LISTAGG(name) FROM things;
-- refused: FIRST_VALUE
SELECT FIRST_VALUE(name) FROM things;
-- refused: LAST_VALUE
SELECT LAST_VALUE(name) FROM things;
-- refused: COLLECT
SELECT COLLECT(name) FROM things;
-- refused: ARRAY_AGG
SELECT ARRAY_AGG(name) FROM things;
-- refused: STDDEV_SAMP
SELECT STDDEV_SAMP(whole) FROM things;
-- refused: CONVERT_TZ
SELECT CONVERT_TZ(name, 'UTC', 'CET') FROM things;
-- refused: LAG
SELECT LAG(whole) FROM things;
-- refused: ML_PREDICT
SELECT ML_PREDICT(name) FROM things;
-- refused: CURRENT_TIME
SELECT CURRENT_TIME FROM things;
-- runs
SELECT CEIL(moment TO HOUR) FROM things;
-- runs
SELECT CEILING(moment TO DAY), CEILING(money) FROM things;
-- runs
SELECT CEIL(born TO MONTH) FROM things;
-- refused: CEIL TO WEEK
SELECT CEIL(moment TO WEEK) FROM things;
-- runs
SELECT born + INTERVAL '1' DAY, born - INTERVAL '1' MONTH FROM things;
-- refused: hours of a DATE
SELECT born + INTERVAL '1' HOUR FROM things;
-- runs
SELECT TIMESTAMPADD(MONTH, whole, born) FROM things;
-- refused: hours of a DATE
SELECT TIMESTAMPADD(HOUR, 1, born) FROM things;
-- runs
SELECT TIMESTAMPDIFF(DAY, born, moment) FROM things;
-- refused: CEIL TO DAY of a DATE
SELECT CEIL(born TO DAY) FROM things;
-- runs
SELECT moment >= '2026-01-31', instant = '2026-01-31 10:00:00.5', born <> '2026-01-31' FROM things;
-- runs
SELECT born IN ('2026-01-31', '2026-02-01'), moment BETWEEN '2026-01-31' AND '2026-02-01' FROM things;
-- unknown
SELECT whole = '1' FROM things;
-- unknown
SELECT moment > 'yesterday' FROM things;
-- refused: a CAST to text of a length
SELECT CAST(name AS VARCHAR(3)) FROM things;
-- refused: a CAST of BIGINT to TIMESTAMP(3)
SELECT CAST(big AS TIMESTAMP(3)) FROM things;
-- refused: the form of DATE_FORMAT
SELECT DATE_FORMAT(moment, 'EEE, d MMM') FROM things;
-- refused: SIMILAR TO
SELECT name SIMILAR TO 'a+' FROM things;
-- refused: RLIKE
SELECT name RLIKE 'a' FROM things;
-- rejected
SELECT name::STRING FROM things;
-- refused: an interval without quotes
SELECT INTERVAL 1 DAY FROM things;
-- rejected
SELECT EXTRACT(moment, YEAR) FROM things;
-- rejected
SELECT whole ** 2 FROM things;
-- rejected
SELECT whole = = 2 FROM things;
-- runs
SELECT FLOOR(moment TO YEAR) FROM things;
-- runs
SELECT FLOOR(moment TO QUARTER) FROM things;
-- runs
SELECT FLOOR(moment TO MONTH) FROM things;
-- runs
SELECT FLOOR(moment TO DAY) FROM things;
-- runs
SELECT FLOOR(moment TO MINUTE) FROM things;
-- runs
SELECT FLOOR(moment TO SECOND) FROM things;
-- runs
SELECT FLOOR(born TO MONTH) FROM things;
-- refused: FLOOR TO WEEK
SELECT FLOOR(moment TO WEEK) FROM things;
-- refused: FLOOR TO DECADE
SELECT FLOOR(moment TO DECADE) FROM things;
-- refused: FLOOR TO MILLENNIUM
SELECT FLOOR(born TO MILLENNIUM) FROM things;
-- runs
SELECT money / 3 FROM things;
-- runs
SELECT money * big FROM things;
-- runs
SELECT money / 3000000000 FROM things;
-- runs
SELECT 7 - money FROM things;
-- runs
SELECT MOD(money, 7) FROM things;
-- runs
SELECT money % 7 FROM things;
-- runs
SELECT CAST(flag AS STRING) FROM things;
-- refused: a CAST of ARRAY to text
SELECT CAST(list AS STRING) FROM things;
-- refused: a CAST of MAP to text
SELECT CAST(pairs AS STRING) FROM things;
-- refused: a CAST of ROW to text
SELECT CAST(nested AS STRING) FROM things;
-- runs
SELECT JSON_VALUE(name, 'lax $.a.b[''c d'']') FROM things;
-- refused: this path of JSON_VALUE
SELECT JSON_VALUE(name, '$.a[0]') FROM things;
-- refused: TIMESTAMPDIFF of MONTH
SELECT TIMESTAMPDIFF(MONTH, moment, instant) FROM things;
-- refused: a TRY_CAST of BIGINT to INT
SELECT TRY_CAST(big AS INT) FROM things;
-- refused: the HOUR of a DATE
SELECT EXTRACT(HOUR FROM born) FROM things;
-- refused: an interval in WEEK
SELECT moment + INTERVAL '1' WEEK FROM things;
-- refused: IN of INT with DECIMAL(2, 1)
SELECT whole IN (1, 2.5) FROM things;
-- refused: this path of JSON_VALUE
SELECT JSON_VALUE(name, 'strict $.a') FROM things;
-- refused: this path of JSON_VALUE
SELECT JSON_VALUE(name, '$.a[*]') FROM things;
-- refused: this path of JSON_VALUE
SELECT JSON_VALUE(name, name) FROM things;
-- runs
SELECT SUBSTRING(name, -3, 2) FROM things;
-- runs
SELECT SUBSTRING(name, whole, tiny) FROM things;
-- runs
SELECT SUBSTR(name, whole) FROM things;
-- refused: REGEXP_REPLACE by anything but plain text in quotes
SELECT REGEXP_REPLACE(name, '(a)', '$1') FROM things;
-- refused: REGEXP_REPLACE by anything but plain text in quotes
SELECT REGEXP_REPLACE(name, 'a', '\n') FROM things;
-- refused: REGEXP_REPLACE by anything but plain text in quotes
SELECT REGEXP_REPLACE(name, 'a', name) FROM things;
-- runs
SELECT CAST(name AS TIMESTAMP(3)) FROM things;
-- runs
SELECT CAST(name AS DATE) FROM things;
-- runs
SELECT TRY_CAST(name AS TIMESTAMP(3)) FROM things;
-- runs
SELECT TRY_CAST(name AS DATE) FROM things;
-- runs
SELECT list[whole] FROM things;
-- refused: SPLIT_INDEX without a separator in quotes
SELECT SPLIT_INDEX(name, name, 0) FROM things;
-- refused: REPLACE of anything but text in quotes
SELECT REPLACE(name, '', 'b') FROM things;
-- runs
SELECT LPAD(name, whole, name) FROM things;
-- rejected
SELECT FLOOR(money, 1) FROM things;
-- refused: TO_DATE with a form
SELECT TO_DATE(name, 'dd.MM.yyyy') FROM things;
-- refused: a group of REGEXP_EXTRACT that may take no part
SELECT REGEXP_EXTRACT(name, '(a)|(b)', 2) FROM things;
-- runs
SELECT REGEXP_EXTRACT(name, '(&|^)channel_id=([^&]*)', 2) FROM things;
-- runs
SELECT REGEXP_EXTRACT(name, '(&|^)channel_id=([^&]*)', 1), REGEXP_EXTRACT(name, '(x)?([a-z]+)', 2) FROM things;
-- refused: a group of REGEXP_EXTRACT that may take no part
SELECT REGEXP_EXTRACT(name, '((a)|b)(c)', 2) FROM things;
-- refused: a group of REGEXP_EXTRACT that may take no part
SELECT REGEXP_EXTRACT(name, '(?:(a)b)*(c)', 1) FROM things;
-- refused: a group of REGEXP_EXTRACT that may take no part
SELECT REGEXP_EXTRACT(name, '(?!(a))(b)', 1) FROM things;
-- refused: a group of REGEXP_EXTRACT that may take no part
SELECT REGEXP_EXTRACT(name, '([a-z]+)(x)?', 2) FROM things;
-- refused: a group of REGEXP_EXTRACT that may take no part
SELECT REGEXP_EXTRACT(name, name, 1) FROM things;
-- runs
SELECT REGEXP_EXTRACT(name, '([a|?]+)\)?', 1) FROM things;
-- refused: ROUND to places that are not written there
SELECT ROUND(money, whole) FROM things;
-- unknown
SELECT half % 2 FROM things;
-- unknown
SELECT MOD(whole_d, 2) FROM things;
