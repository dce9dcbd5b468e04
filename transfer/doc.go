// Package transfer moves tensors: it chooses the route between two devices by the links that there are, cuts a move into chunks, and executes it so that a
// step's rows never wait for more than one chunk of a migration.
//
// Route choice and chunk plans are pure functions of links and sizes. Mover executes; it knows devices only through Region.
package transfer
