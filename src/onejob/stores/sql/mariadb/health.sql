-- name: health_keys
-- why: information_schema; the prefix is a part of a table's name
SELECT SUBSTRING(table_name, CHAR_LENGTH('{schema}') + 1),
       GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR ',')
  FROM information_schema.statistics
 WHERE table_schema = DATABASE()
   AND LEFT(table_name, CHAR_LENGTH('{schema}')) = '{schema}'
   AND non_unique = 0
   AND sub_part IS NULL
 GROUP BY table_name, index_name
 ORDER BY table_name
