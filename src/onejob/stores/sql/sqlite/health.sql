-- name: health_transaction
-- why: nobody can be asked who has the file open
SELECT 0, 0, '', '' WHERE 0

-- name: health_settings
-- why: pragmas
SELECT 'journal_mode', journal_mode FROM pragma_journal_mode
 UNION ALL
SELECT 'synchronous', CAST(synchronous AS text) FROM pragma_synchronous
