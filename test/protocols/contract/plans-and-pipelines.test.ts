/** Strategies that take the query apart, or whose order is written down. */
import { holdsFor } from './holds.ts'

// The strategies that take the query apart.

holdsFor('collaborate', 'supervisor')

// The strategies whose order is written down.

holdsFor('sequential', 'parallel', 'custom')
