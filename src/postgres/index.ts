/** A cluster on PostgreSQL: `dramatis/postgres`. The package `pg` is an optional peer of this one. */
export { PostgresStore, type PostgresStoreOptions } from './postgres-store.ts'
