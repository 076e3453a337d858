-- Where the ends of a tenant's runs are reported, unless a message names another address.
ALTER TABLE tenant ADD COLUMN webhook TEXT;
