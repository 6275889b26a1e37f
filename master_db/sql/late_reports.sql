-- name: reported_of(ids) -> ReportedRow
select job_id, fence from jobyard.late_reports where job_id = any ($ids::uuid[]);
