/** The strategies that take the query apart. */
import { holdsFor } from './holds.ts'

holdsFor('collaborate', 'supervisor')
