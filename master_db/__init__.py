"""The Master DB's adapter: named queries, one lane's store, audit, maintenance."""
