-- name: health_transaction
-- why: nobody can be asked who has the file open
SELECT 0, 0, '', '' WHERE 0

-- name: health_settings
-- why: pragmas
SELECT 'journal_mode', journal_mode FROM pragma_journal_mode
 UNION ALL
SELECT 'synchronous', CAST(synchronous AS text) FROM pragma_synchronous

-- name: health_keys
-- why: pragmas; the prefix is a part of a table's name
SELECT substr(m.name, length('{schema}') + 1), group_concat(c.name, ',')
  FROM sqlite_master AS m
  JOIN pragma_index_list(m.name) AS i
  JOIN pragma_index_info(i.name) AS c
 WHERE m.type = 'table'
   AND substr(m.name, 1, length('{schema}')) = '{schema}'
   AND i."unique" AND NOT i.partial
 GROUP BY m.name, i.name
 ORDER BY m.name
